"""Metrics of a replica, told to Ray, which has a page for Prometheus on every node."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.serving.served_metrics import (
    HISTOGRAMS,
    OPEN_REQUESTS,
    RESPONSES,
    CountingObserver,
    Metric,
    Record,
)
from ortpkg.serving.served_model import ServedModel


class RayObserver(CountingObserver):
    """Tells Ray what ``ortpkg serve`` has on its own page, by the same names.

    Ray puts ``ray_`` before them, and labels of the application, the deployment and the replica
    beside ours.

    ``open_requests``: how many run or wait at this moment.
    """

    def __init__(self, open_requests: Callable[[], int]) -> None:
        from ray.serve import metrics  # this runs where Ray does alone

        super().__init__(self._recorder)
        self._open_requests = open_requests
        self._histograms = {
            each: metrics.Histogram(each.name, each.description, list(each.buckets), each.labels)
            for each in HISTOGRAMS
        }
        self._responses = metrics.Counter(RESPONSES.name, RESPONSES.description, RESPONSES.labels)
        self._open = metrics.Gauge(OPEN_REQUESTS.name, OPEN_REQUESTS.description)

    def _recorder(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        told = dict(zip(metric.labels, labels, strict=True))
        add = self._responses.inc if metric is RESPONSES else self._histograms[metric].observe
        return lambda value: add(value, told)

    def began(self, model: ServedModel, waited_s: float) -> None:
        """See :meth:`Observer.began`."""
        super().began(model, waited_s)
        self._open.set(self._open_requests(), {})

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        """See :meth:`Observer.joined`."""
        super().joined(model, rows, waited_s)
        self._open.set(self._open_requests(), {})

    def responded(self, protocol: str, status: str) -> None:
        """See :meth:`Observer.responded`."""
        super().responded(protocol, status)
        self._open.set(self._open_requests(), {})
