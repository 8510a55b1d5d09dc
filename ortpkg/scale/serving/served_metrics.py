"""Metrics of servers: names, labels and buckets, and what counts when, for any exporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.served_model import RunningVariant, ServedModel

#: Bounds from a small model's run to a large one's.
_SECONDS = tuple(base * 10.0**power for power in range(-5, 2) for base in (1.0, 2.5, 5.0))
_ROWS = tuple(float(1 << power) for power in range(13))
_MODEL = ("model", "version")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """One metric, equal to no other.

    Attributes:
        name: Name for Prometheus; of a counter without ``_total``.
        description: Description for people.
        labels: Names of labels.
        buckets: Upper bounds of a histogram's buckets.
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


#: Metrics that have buckets.
HISTOGRAMS = (REQUEST_SECONDS, WAIT_SECONDS, RUN_SECONDS, BATCH_ROWS, BATCH_REQUESTS)

#: Adds a value to a metric with certain labels.
Record = Callable[[float], object]


class CountingObserver(Observer):
    """Observer that counts in these metrics.

    Args:
        recorder: Returns a function that adds to a metric with the given label values. It is called
            once for each metric and labels, because libraries take longer to find them than to add.
    """

    def __init__(self, recorder: Callable[[Metric, tuple[str, ...]], Record]) -> None:
        self._record = cache(recorder)

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """Count runs; see :meth:`Observer.loaded`."""
        runs = {
            variant.component: self._record(RUN_SECONDS, _run_labels(model, variant))
            for variant in model.variants
        }

        def ran(component: str, duration_s: float) -> None:
            runs[component](duration_s)

        return ran

    def began(self, model: ServedModel, waited_s: float) -> None:
        """Count a wait; see :meth:`Observer.began`."""
        self._record(WAIT_SECONDS, (model.name, model.version))(waited_s)

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """Count a joined run; see :meth:`Observer.joined`."""
        labels = (model.name, model.version)
        self._record(BATCH_ROWS, labels)(rows)
        self._record(BATCH_REQUESTS, labels)(len(waited_s))
        for duration_s in waited_s:
            self._record(WAIT_SECONDS, labels)(duration_s)

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """Count an answer; see :meth:`Observer.answered`."""
        self._record(REQUEST_SECONDS, (model.name, model.version))(duration_s)

    def responded(self, protocol: str, status: str) -> None:
        """Count a response; see :meth:`Observer.responded`."""
        self._record(RESPONSES, (protocol, status))(1)


def _run_labels(model: ServedModel, variant: RunningVariant) -> tuple[str, ...]:
    return (
        model.name,
        model.version,
        variant.component,
        variant.variant,
        variant.ep,
        variant.backend,
        variant.device,
    )
