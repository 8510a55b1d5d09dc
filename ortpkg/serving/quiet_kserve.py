"""Load KServe and grpc without side effects on the command line and the terminal.

KServe's module ``model_server`` parses ``sys.argv`` when it is imported, and ends the process if an
option of ours looks like a wrong one of its own. Import this module before KServe.
"""

from __future__ import annotations

import os
import sys

from ortpkg.errors import MissingExtraError


def load_kserve() -> None:
    """Import KServe.

    Raises:
        MissingExtraError: KServe is not installed or cannot be loaded.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # failures are raised, and reported by ortpkg
    words = sys.argv
    sys.argv = words[:1]
    try:
        import kserve  # noqa: F401  # only a server pays for it: it takes seconds
    except ImportError as error:
        raise MissingExtraError("serving", "KServe", error) from error
    finally:
        sys.argv = words
