#!/bin/sh
# Makes the virtual environment $1 from nothing, with the Python that find_python.sh chooses. Called in the checkout.
# .made in it, written last, is what venv_state.sh goes by: a killed run leaves an environment without it.
set -u

venv=$1
python=$(sh scripts/find_python.sh) || exit 1
reason=$(sh scripts/venv_state.sh "$venv")
[ -z "$reason" ] || echo "making $venv anew: $reason"
rm -rf "$venv" || exit 1
echo "making $venv with $python"
"$python" -m venv "$venv" || exit 1
printf '%s\n' "$(pwd -P)" "$python" >"$venv/.made"
