"""Faults of the compiler itself: what it raises that says nothing of the model.

A provider that nobody asked for costs no session (docs/adr/0016-default-providers.md): a node or a
partition at which the compiler fails is left to the next provider, with a warning. Tests set the
variable by which faults are raised, so that none hides behind a refusal.
"""

from __future__ import annotations

import logging
import os

from ortpkg.errors import quoted
from ortpkg.shapes.inference import STRICT_VARIABLE

_log = logging.getLogger(__name__)


def refusal_for(error: Exception, subject: str) -> str:
    """Return the reason why a subject is not compiled, and warn; or raise the fault itself.

    Args:
        error: what the compiler raised, other than its own refusals.
        subject: the node or partition, for the warning.
    """
    if os.environ.get(STRICT_VARIABLE) == "1":
        raise error
    fault = f"{type(error).__name__}: {quoted(error)}"
    _log.warning("the compiler of machine code fails at %s, which it leaves: %s", subject, fault)
    return f"the compiler fails at it, for a fault of its own: {fault}"
