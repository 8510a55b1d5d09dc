"""Metrics of a server in the format of Prometheus, by the client library that KServe brings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ortpkg.serving.observer import Observer
from ortpkg.serving.served_metrics import (
    BATCH_REQUESTS,
    BATCH_ROWS,
    OPEN_REQUESTS,
    REQUEST_SECONDS,
    RESPONSES,
    RUN_SECONDS,
    WAIT_SECONDS,
    Metric,
    run_labels,
)
from ortpkg.serving.served_model import ServedModel


class PrometheusObserver(Observer):
    """Keeps count, and tells.

    ``open_requests``: how many run or wait at this moment.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._registry = registry
        # By their labels, kept: the library takes longer to find one than to add to it.
        self._request_s = cache(_histogram(REQUEST_SECONDS, registry).labels)
        self._wait_s = cache(_histogram(WAIT_SECONDS, registry).labels)
        self._run_s = _histogram(RUN_SECONDS, registry)
        self._batch_rows = cache(_histogram(BATCH_ROWS, registry).labels)
        self._batch_requests = cache(_histogram(BATCH_REQUESTS, registry).labels)
        responses = Counter(
            RESPONSES.name, RESPONSES.description, RESPONSES.labels, registry=registry
        )
        self._responses = cache(responses.labels)
        Gauge(OPEN_REQUESTS.name, OPEN_REQUESTS.description, registry=registry).set_function(
            open_requests
        )

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """See :meth:`Observer.loaded`."""
        runs = {
            each.component: self._run_s.labels(*run_labels(model, each)) for each in model.variants
        }

        def ran(component: str, duration_s: float) -> None:
            runs[component].observe(duration_s)

        return ran

    def began(self, model: ServedModel, waited_s: float) -> None:
        """See :meth:`Observer.began`."""
        self._wait_s(model.name, model.version).observe(waited_s)

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """See :meth:`Observer.joined`."""
        labels = (model.name, model.version)
        self._batch_rows(*labels).observe(rows)
        self._batch_requests(*labels).observe(len(waited_s))
        for each in waited_s:
            self._wait_s(*labels).observe(each)

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """See :meth:`Observer.answered`."""
        self._request_s(model.name, model.version).observe(duration_s)

    def responded(self, protocol: str, status: str) -> None:
        """See :meth:`Observer.responded`."""
        self._responses(protocol, status).inc()

    def page(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        metric.name, metric.description, metric.labels, buckets=metric.buckets, registry=registry
    )
