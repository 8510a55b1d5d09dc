"""The OpenSSF's own tool in an environment of its own, which ``make interop-signing`` makes."""

from __future__ import annotations

import os

#: The tool; without it nothing here is collected.
TOOL = os.environ.get("ORTPKG_TEST_MODEL_SIGNING", "")
collect_ignore_glob = [] if TOOL else ["test_*.py"]
