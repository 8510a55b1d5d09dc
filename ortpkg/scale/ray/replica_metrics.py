"""Metrics of a replica, passed to Ray, which has a Prometheus page on every node."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.scale.serving.served_metrics import (
    HISTOGRAMS,
    OPEN_REQUESTS,
    RESPONSES,
    CountingObserver,
    Metric,
    Record,
)
from ortpkg.scale.serving.served_model import ServedModel


class RayObserver(CountingObserver):
    """Observer that passes Ray the same metrics that ``ortpkg serve`` shows on its page.

    Ray adds the prefix ``ray_``, and labels of the application, the deployment and the replica.

    Args:
        open_requests: Returns the number of requests that run or wait now.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        from ray.serve import metrics  # this runs where Ray does alone

        super().__init__(self._recorder)
        self._open_requests = open_requests
        self._histograms = {
            metric: metrics.Histogram(
                metric.name, metric.description, list(metric.buckets), metric.labels
            )
            for metric in HISTOGRAMS
        }
        self._responses = metrics.Counter(RESPONSES.name, RESPONSES.description, RESPONSES.labels)
        self._open = metrics.Gauge(OPEN_REQUESTS.name, OPEN_REQUESTS.description)

    def _recorder(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        tags = dict(zip(metric.labels, labels, strict=True))
        add = self._responses.inc if metric is RESPONSES else self._histograms[metric].observe
        return lambda value: add(value, tags)

    def began(self, model: ServedModel, waited_s: float) -> None:
        """Update the open requests, too; see :meth:`Observer.began`."""
        super().began(model, waited_s)
        self._open.set(self._open_requests(), {})

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """Update the open requests, too; see :meth:`Observer.joined`."""
        super().joined(model, rows, waited_s)
        self._open.set(self._open_requests(), {})

    def responded(self, protocol: str, status: str) -> None:
        """Update the open requests, too; see :meth:`Observer.responded`."""
        super().responded(protocol, status)
        self._open.set(self._open_requests(), {})
