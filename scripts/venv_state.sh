#!/bin/sh
# Says why the virtual environment $1 cannot be used and has to be made anew; nothing where it can. Quick: make asks at
# each start. Called in the checkout. The file .made in it (see `made` in the Makefile) says what it was made for:
# the checkout's path, since the commands in it and the editable installation name that, and the Python.
set -u

venv=$1
[ -e "$venv" ] || [ -L "$venv" ] || exit 0 # there is none yet, which is nothing to be told

if [ ! -f "$venv/.made" ]; then
    echo "it was not made to the end, or not by make"
    exit 0
fi
{
    read -r made_for
    read -r made_with
} <"$venv/.made"
if [ "$made_for" != "$(pwd -P)" ]; then
    echo "it was made for $made_for"
elif ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    echo "its Python or pip is gone"
elif [ -n "${PYTHON:-}" ] && [ "$(sh scripts/find_python.sh 2>/dev/null)" != "$made_with" ]; then
    echo "it was made with $made_with, and PYTHON is $PYTHON"
fi
