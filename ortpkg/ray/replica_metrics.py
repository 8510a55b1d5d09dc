"""Metrics of a replica, told to Ray, which has a page for Prometheus on every node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


class RayObserver(Observer):
    """Tells Ray what ``ortpkg serve`` has on its own page, by the same names.

    Ray puts ``ray_`` before them, and labels of the application, the deployment and the replica
    beside ours.

    ``open_requests``: how many run or wait at this moment.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        from ray.serve import metrics  # this runs where Ray does alone

        self._open_requests = open_requests
        self._request_s = _Histogram(metrics, REQUEST_SECONDS)
        self._wait_s = _Histogram(metrics, WAIT_SECONDS)
        self._run_s = _Histogram(metrics, RUN_SECONDS)
        self._batch_rows = _Histogram(metrics, BATCH_ROWS)
        self._batch_requests = _Histogram(metrics, BATCH_REQUESTS)
        self._responses = metrics.Counter(RESPONSES.name, RESPONSES.description, RESPONSES.labels)
        self._open = metrics.Gauge(OPEN_REQUESTS.name, OPEN_REQUESTS.description)

    def loaded(self, model: ServedModel) -> Callable[[str, float], None]:
        """See :meth:`Observer.loaded`."""
        labels = {each.component: run_labels(model, each) for each in model.variants}

        def ran(component: str, duration_s: float) -> None:
            self._run_s.observe(duration_s, labels[component])

        return ran

    def began(self, model: ServedModel, waited_s: float) -> None:
        """See :meth:`Observer.began`."""
        self._wait_s.observe(waited_s, (model.name, model.version))
        self._open.set(self._open_requests(), {})

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """See :meth:`Observer.joined`."""
        labels = (model.name, model.version)
        self._batch_rows.observe(rows, labels)
        self._batch_requests.observe(len(waited_s), labels)
        for each in waited_s:
            self._wait_s.observe(each, labels)
        self._open.set(self._open_requests(), {})

    def answered(self, model: ServedModel, duration_s: float) -> None:
        """See :meth:`Observer.answered`."""
        self._request_s.observe(duration_s, (model.name, model.version))

    def responded(self, protocol: str, status: str) -> None:
        """See :meth:`Observer.responded`."""
        self._responses.inc(1, dict(zip(RESPONSES.labels, (protocol, status), strict=True)))
        self._open.set(self._open_requests(), {})


class _Histogram:
    def __init__(self, metrics: Any, metric: Metric) -> None:
        self._labels = metric.labels
        self._histogram = metrics.Histogram(
            metric.name, metric.description, list(metric.buckets), metric.labels
        )

    def observe(self, value: float, labels: tuple[str, ...]) -> None:
        self._histogram.observe(value, dict(zip(self._labels, labels, strict=True)))
