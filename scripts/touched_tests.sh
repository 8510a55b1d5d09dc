#!/bin/sh
# The test folders of what differs from main, committed or not: tests/ROOM and tests/WING for ortpkg/WING/ROOM/...,
# tests/NAME for tests/NAME/...
set -eu
base=$(git merge-base main HEAD 2>/dev/null || git rev-parse HEAD)
{
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
} | sed -nE -e 's,^ortpkg/([^/]+)/([^/]+)/.*,tests/\1\ntests/\2,p' -e t \
    -e 's,^ortpkg/([^/]+)/([^/]+)\.py$,tests/\1\ntests/test_\2.py,p' -e t -e 's,^(ortpkg|tests)/([^/]+)/.*,tests/\2,p' -e 's,^tests/(test_[^/]+\.py)$,tests/\1,p' \
    -e 's,^ortpkg/([^/]+\.py)$,tests/test_\1,p' | sort -u | while read -r path; do
    if [ -e "$path" ]; then echo "$path"; fi
done
