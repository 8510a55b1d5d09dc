"""Metrics of a server in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from ortpkg.scale.serving.served_metrics import (
    HISTOGRAMS,
    OPEN_REQUESTS,
    RESPONSES,
    CountingObserver,
    Metric,
    Record,
)


class PrometheusObserver(CountingObserver):
    """Observer that keeps counts for Prometheus.

    Args:
        open_requests: Returns the number of requests that run or wait now.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        super().__init__(self._recorder)
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._registry = registry
        self._histograms = {
            metric: Histogram(
                metric.name,
                metric.description,
                metric.labels,
                buckets=metric.buckets,
                registry=registry,
            )
            for metric in HISTOGRAMS
        }
        self._responses = Counter(
            RESPONSES.name, RESPONSES.description, RESPONSES.labels, registry=registry
        )
        Gauge(OPEN_REQUESTS.name, OPEN_REQUESTS.description, registry=registry).set_function(
            open_requests
        )

    def _recorder(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        if metric is RESPONSES:
            count: Record = self._responses.labels(*labels).inc
            return count
        observe: Record = self._histograms[metric].labels(*labels).observe
        return observe

    def page(self) -> tuple[bytes, str]:
        """Return the page for Prometheus and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
