"""Metrics of a server in the format of Prometheus, by the client library that KServe brings."""

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

from ortpkg.serving.observer import Observer
from ortpkg.serving.served_model import ServedModel

#: From a small model's run to a large one's.
_SECONDS = tuple(base * 10.0**power for power in range(-5, 2) for base in (1.0, 2.5, 5.0))
_ROWS = tuple(float(1 << power) for power in range(13))
_MODEL = ("model", "version")


class PrometheusObserver(Observer):
    """Keeps count, and tells.

    ``open_requests``: how many run or wait at this moment.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._registry = registry
        self._request_s = Histogram(
            "ortpkg_request_seconds",
            "From a request that has been read to its outputs, waiting included.",
            _MODEL,
            buckets=_SECONDS,
            registry=registry,
        )
        self._wait_s = Histogram(
            "ortpkg_wait_seconds",
            "From a request that has been read to the begin of its run.",
            _MODEL,
            buckets=_SECONDS,
            registry=registry,
        )
        self._run_s = Histogram(
            "ortpkg_run_seconds",
            "One run of a component model, by the variant that runs.",
            (*_MODEL, "component", "variant", "ep", "backend", "device"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch_rows = Histogram(
            "ortpkg_batch_rows", "Rows of joined runs.", _MODEL, buckets=_ROWS, registry=registry
        )
        self._batch_requests = Histogram(
            "ortpkg_batch_requests",
            "Requests of joined runs.",
            _MODEL,
            buckets=_ROWS,
            registry=registry,
        )
        self._responses = Counter(
            "ortpkg_responses",
            "Responses by protocol and status; 429, 503, RESOURCE_EXHAUSTED are refusals.",
            ("protocol", "status"),
            registry=registry,
        )
        Gauge(
            "ortpkg_open_requests", "Requests that run or wait now.", registry=registry
        ).set_function(open_requests)

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """See :meth:`Observer.loaded`."""
        runs = {
            each.component: self._run_s.labels(
                model.name,
                model.version,
                each.component,
                each.variant,
                each.ep,
                each.backend,
                each.device,
            )
            for each in model.variants
        }

        def ran(component: str, duration_s: float) -> None:
            runs[component].observe(duration_s)

        return ran

    def began(self, model: ServedModel, waited_s: float) -> None:
        """See :meth:`Observer.began`."""
        self._wait_s.labels(model.name, model.version).observe(waited_s)

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """See :meth:`Observer.joined`."""
        labels = (model.name, model.version)
        self._batch_rows.labels(*labels).observe(rows)
        self._batch_requests.labels(*labels).observe(len(waited_s))
        for each in waited_s:
            self._wait_s.labels(*labels).observe(each)

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """See :meth:`Observer.answered`."""
        self._request_s.labels(model.name, model.version).observe(duration_s)

    def responded(self, protocol: str, status: str) -> None:
        """See :meth:`Observer.responded`."""
        self._responses.labels(protocol, status).inc()

    def page(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
