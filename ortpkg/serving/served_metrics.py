"""What servers count: names, labels and buckets, for whatever tells them."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.serving.served_model import RunningVariant, ServedModel

#: From a small model's run to a large one's.
_SECONDS = tuple(base * 10.0**power for power in range(-5, 2) for base in (1.0, 2.5, 5.0))
_ROWS = tuple(float(1 << power) for power in range(13))
_MODEL = ("model", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: as Prometheus has it; of a counter without ``_total``.
        description: for people.
        labels: names of labels.
        buckets: of a histogram, their upper bounds.
    """

    name: str
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


REQUEST_SECONDS = Metric(
    name="ortpkg_request_seconds",
    description="From a request that has been read to its outputs, waiting included.",
    labels=_MODEL,
    buckets=_SECONDS,
)
WAIT_SECONDS = Metric(
    name="ortpkg_wait_seconds",
    description="From a request that has been read to the begin of its run.",
    labels=_MODEL,
    buckets=_SECONDS,
)
RUN_SECONDS = Metric(
    name="ortpkg_run_seconds",
    description="One run of a component model, by the variant that runs.",
    labels=(*_MODEL, "component", "variant", "ep", "backend", "device"),
    buckets=_SECONDS,
)
BATCH_ROWS = Metric(
    name="ortpkg_batch_rows", description="Rows of joined runs.", labels=_MODEL, buckets=_ROWS
)
BATCH_REQUESTS = Metric(
    name="ortpkg_batch_requests",
    description="Requests of joined runs.",
    labels=_MODEL,
    buckets=_ROWS,
)
RESPONSES = Metric(
    name="ortpkg_responses",
    description="Responses by protocol and status; 429, 503, RESOURCE_EXHAUSTED are refusals.",
    labels=("protocol", "status"),
)
OPEN_REQUESTS = Metric(name="ortpkg_open_requests", description="Requests that run or wait now.")


def run_labels(model: ServedModel, variant: RunningVariant) -> tuple[str, ...]:
    """The values of the labels of :data:`RUN_SECONDS`."""
    return (
        model.name,
        model.version,
        variant.component,
        variant.variant,
        variant.ep,
        variant.backend,
        variant.device,
    )
