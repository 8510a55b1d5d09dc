#!/bin/sh
# Prints the path of a Python that can make ortpkg's virtual environment (3.11 or newer, with venv and pip).
# Finding none, says what to install, on standard error, and exits with 1. PYTHON=/path/to/python is taken instead of a
# search: where it cannot be used, no other one is.
set -u

# Of a virtual environment, which may be the one that is made anew, the Python that it was made with.
itself='import sys; print(sys._base_executable)'
is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
has_venv='import venv, ensurepip'
without_venv=''

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3 python3.13 python3.12 python3.11 python3.14 python
fi
for candidate in "$@"; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    "$path" -c "$is_new_enough" >/dev/null 2>&1 || continue
    if "$path" -c "$has_venv" >/dev/null 2>&1; then
        exec "$path" -c "$itself"
    fi
    without_venv=${without_venv:-$path}
done

if [ -n "$without_venv" ]; then
    version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "ortpkg: $without_venv is new enough, but cannot make virtual environments." >&2
    echo "        Debian, Ubuntu: apt install python$version-venv" >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "ortpkg: PYTHON=$PYTHON is no Python 3.11 or newer that can be started. Name another one, or leave PYTHON out" >&2
    echo "        to have one searched for on PATH." >&2
else
    echo "ortpkg: no Python 3.11 or newer was found on PATH. Install one and run make again:" >&2
    echo "        Debian, Ubuntu: apt install python3 python3-venv    Fedora: dnf install python3" >&2
    echo "        macOS: brew install python3                         Windows: winget install Python.Python.3.13" >&2
    echo "        or name one: make PYTHON=/path/to/python3.11 run" >&2
fi
exit 1
