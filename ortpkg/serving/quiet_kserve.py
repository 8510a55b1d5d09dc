"""Loads KServe and grpc without their reading our command line, or writing lines of their own.

KServe's module ``model_server`` parses ``sys.argv`` while it is imported, and ends the process
where an option of ours looks like a wrong one of its own. Whoever imports KServe here imports this
first.
"""

from __future__ import annotations

import os
import sys

from ortpkg.errors import MissingExtraError


def load_kserve() -> None:
    """Imports KServe. MissingExtraError where it is not installed, or cannot be loaded."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is raised, and said by us
    words = sys.argv
    sys.argv = words[:1]
    try:
        import kserve  # noqa: F401  # only a server pays for it: it takes seconds
    except ImportError as error:
        raise MissingExtraError("serving", "KServe", error) from error
    finally:
        sys.argv = words
