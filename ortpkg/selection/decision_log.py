"""Log a decision: one structured record, for whoever asks for it on this machine.

Nothing is sent anywhere.

It is the step that pull request 27786 calls LogTelemetry; here it is a value that the caller's
function gets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo
    from ortpkg.selection.verdict import Selection

DECISION_SCHEMA_VERSION = "1.0"

#: Takes a record of a decision, a JSON object (docs/selection.md, "Log").
DecisionLog = Callable[[dict[str, Any]], None]


def log_decision(
    selection: Selection, package: PackageInfo, *, duration_s: float, log: DecisionLog | None
) -> None:
    """Give ``log`` the record of the decision, and Python's logging one line at the level INFO.

    Args:
        selection: what was decided.
        package: of what.
        duration_s: how long that took, with devices known.
        log: None where nobody wants the record: then none is made.
    """
    if "logging" in sys.modules:  # where nobody has loaded it, nobody listens
        import logging

        logger = logging.getLogger(__name__)
        if logger.isEnabledFor(logging.INFO):
            chosen = "none" if selection.best is None else repr(selection.best.variant.name)
            logger.info(
                "selected %s of %r (policy %s)", chosen, selection.component_name, selection.policy
            )
    if log is not None:
        log(decision_record(selection, package, duration_s=duration_s))


def decision_record(
    selection: Selection, package: PackageInfo, *, duration_s: float
) -> dict[str, Any]:
    """The record: when, of which package, how long it took, and all that ``select --json`` says."""
    # Only where somebody wants a record.
    from datetime import UTC, datetime

    from ortpkg.selection.explanation import selection_to_json
    from ortpkg.version import __version__

    return {
        "schema_version": DECISION_SCHEMA_VERSION,
        "kind": "selection_decision",
        "recorded_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "ortpkg": __version__,
        "package": {
            "name": package.name,
            "version": package.version,
            "format": package.format.value,
            "root": str(package.root),
        },
        "duration_s": duration_s,
        "selection": selection_to_json(selection),
    }
