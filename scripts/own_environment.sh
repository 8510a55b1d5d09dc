#!/bin/sh
# Runs a command in an environment of its own: sh scripts/own_environment.sh COMMAND [ARGUMENT...]
# A setting of the machine can hide a fault (with PYTHONUNBUFFERED no flush fails at an interpreter's end) or make one up,
# so checks and tests inherit these alone. Installing inherits everything: indexes are configured by PIP_* and certificates.
#   places and ways: PATH, HOME, TMPDIR, proxies
#   right results:   OPENBLAS_CORETYPE, OPENBLAS_L2_SIZE (OpenBLAS computes wrong products on some CPUs without them)
# The language is always UTF-8's plain one. A command may begin with NAME=VALUE words, as for env.
set -eu

for name in PATH HOME TMPDIR OPENBLAS_CORETYPE OPENBLAS_L2_SIZE \
    HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    eval "[ -z \"\${$name+set}\" ]" || eval "set -- \"$name=\$$name\" \"\$@\""
done
exec env -i LANG=C.UTF-8 "$@"
