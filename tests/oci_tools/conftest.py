"""OCI tools of others, which ``make oci-tools`` asks: skopeo of the system, oras for Python."""

from __future__ import annotations

import os

#: The interpreter that has oras; without it nothing here is collected.
ORAS_PYTHON = os.environ.get("ORTPKG_TEST_ORAS_PYTHON", "")
collect_ignore_glob = [] if ORAS_PYTHON else ["test_*.py"]
