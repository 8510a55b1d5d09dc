"""Log entries about a model that is ready."""

from __future__ import annotations

from ortpkg.scale.serving.loading import Loaded
from ortpkg.scale.serving.server_log import log_event, log_warning


def log_loaded(loaded: Loaded) -> None:
    """Log what a model runs as, the result of its first run, and what somebody should look at."""
    model, first_run = loaded.model, loaded.first_run
    for item in loaded.warnings:
        log_warning("warning", model=model.name, version=model.version, message=item)
    if first_run.matches is False:
        log_warning(
            "warning",
            model=model.name,
            version=model.version,
            message="its samples do not give what the package expects; ortpkg run says more",
        )
    log_event(
        "loaded",
        model=model.name,
        version=model.version,
        variants=[f"{item.component}/{item.variant}" for item in model.variants],
        places=[f"{item.ep} ({item.backend}) {item.device}".strip() for item in model.variants],
        first_run=first_run.on,
        matches=first_run.matches,
        duration_s=round(loaded.duration_s, 3),
    )
    if loaded.batches is not None:
        plan, reason = loaded.batches.plan, loaded.batches.reason
        log_event(
            "batching",
            model=model.name,
            version=model.version,
            most_rows=1 if plan is None else plan.most_rows,
            longest_wait_s=0.0 if plan is None else round(plan.longest_wait_s, 6),
            reason=reason,
        )
