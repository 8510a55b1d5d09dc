"""Which metrics a server counts what happens in, whoever tells them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

from ortpkg.scale.serving.served_metrics import (
    BATCH_REQUESTS,
    BATCH_ROWS,
    REQUEST_SECONDS,
    RESPONSES,
    RUN_SECONDS,
    WAIT_SECONDS,
    CountingObserver,
    Metric,
    Record,
)
from ortpkg.scale.serving.served_model import RunningVariant, ServedModel


class _Counts:
    """What was added to each metric with its labels, and how often that was asked for."""

    def __init__(self) -> None:
        self.added: dict[tuple[str, tuple[str, ...]], list[float]] = defaultdict(list)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def recorder(self, metric: Metric, labels: tuple[str, ...]) -> Record:
        assert len(labels) == len(metric.labels)
        self.asked.append((metric.name, labels))
        return self.added[metric.name, labels].append


def _model() -> ServedModel:
    variant = RunningVariant(
        component="c", variant="v", ep="CPUExecutionProvider", backend="embedded", device="cpu"
    )

    class Model:
        name, version, variants = "digits", "2", (variant,)

    return cast(Any, Model())  # type: ignore[no-any-return]


def test_what_happens_is_counted_by_model_and_version_or_by_the_variant_that_runs() -> None:
    counts = _Counts()
    observer, model = CountingObserver(counts.recorder), _model()
    labels = ("digits", "2")

    ran = observer.loaded(model)
    observer.began(model, 0.25)
    observer.joined(model, 6, [0.5, 0.75])
    ran("c", 0.125)
    observer.answered(model, 1.5)
    observer.responded("http", "200")

    of_the_run = (*labels, "c", "v", "CPUExecutionProvider", "embedded", "cpu")
    assert counts.added == {
        (WAIT_SECONDS.name, labels): [0.25, 0.5, 0.75],
        (BATCH_ROWS.name, labels): [6],
        (BATCH_REQUESTS.name, labels): [2],
        (RUN_SECONDS.name, of_the_run): [0.125],
        (REQUEST_SECONDS.name, labels): [1.5],
        (RESPONSES.name, ("http", "200")): [1],
    }


def test_a_metric_with_its_labels_is_looked_up_once() -> None:
    counts = _Counts()
    observer = CountingObserver(counts.recorder)

    for _ in range(3):
        observer.responded("grpc", "OK")

    assert counts.asked == [(RESPONSES.name, ("grpc", "OK"))]
    assert counts.added[RESPONSES.name, ("grpc", "OK")] == [1, 1, 1]
