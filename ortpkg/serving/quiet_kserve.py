"""Loads KServe without its reading this program's command line.

Its module ``model_server`` parses ``sys.argv`` while it is imported, and ends the process where an
option of ours looks like a wrong one of its own. Whoever imports KServe here imports this first.
"""

from __future__ import annotations

import sys

from ortpkg.errors import UsageError


def load_kserve() -> None:
    """Imports KServe. UsageError where it is not installed, or cannot be loaded."""
    words = sys.argv
    sys.argv = words[:1]
    try:
        import kserve  # noqa: F401  # only a server pays for it: it takes seconds
    except ImportError as error:
        raise UsageError(
            f"serving needs KServe, which the extra serve brings (pip install kserve): {error}"
        ) from error
    finally:
        sys.argv = words
