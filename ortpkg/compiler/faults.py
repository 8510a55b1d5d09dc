"""Turns unexpected exceptions of the compiler into refusals of a node or partition.

A default provider must not break a session (docs/adr/0016-default-providers.md): a node or
partition at which the compiler fails is left to the next provider, with a warning. Tests set the
variable that raises such exceptions instead, so that no fault hides behind a refusal.
"""

from __future__ import annotations

import logging
import os

from ortpkg.foundations.errors import quoted
from ortpkg.graph.shapes.inference import STRICT_VARIABLE

_log = logging.getLogger(__name__)


def log_refusal(error: Exception, subject: str) -> str:
    """Log a warning and return why the subject is not compiled; in tests, raise ``error``.

    Args:
        error: an exception of the compiler that is none of its own refusals.
        subject: the node or partition, for the warning.
    """
    if os.environ.get(STRICT_VARIABLE) == "1":
        raise error
    fault = f"{type(error).__name__}: {quoted(error)}"
    _log.warning("the compiler of machine code fails at %s, which it leaves: %s", subject, fault)
    return f"the compiler fails at it, for a fault of its own: {fault}"
