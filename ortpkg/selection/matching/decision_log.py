"""Log decisions of selection: one structured record for a function of the caller.

Nothing is sent anywhere. Pull request 27786 of onnxruntime calls this step LogTelemetry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo
    from ortpkg.selection.matching.verdict import Selection

DECISION_SCHEMA_VERSION = "1.0"

#: Function that takes the record of a decision, a JSON object (docs/selection.md, "Log").
DecisionLog = Callable[[dict[str, Any]], None]


def log_decision(
    selection: Selection, package: PackageInfo, *, duration_s: float, log: DecisionLog | None
) -> None:
    """Pass the record of the decision to ``log``, and log one line at the level INFO.

    Args:
        selection: the decision.
        package: the package.
        duration_s: duration of the decision in seconds, with devices known.
        log: receives the record; None to make none.
    """
    if "logging" in sys.modules:  # if nobody has imported it, nobody listens
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
    """Return the record: time, package, duration, and the content of ``select --json``."""
    # Imported only if a record is wanted.
    from datetime import UTC, datetime

    from ortpkg.foundations.version import __version__
    from ortpkg.selection.matching.explanation import selection_to_json

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
