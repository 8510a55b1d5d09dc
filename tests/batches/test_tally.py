"""What is counted while a batch runs."""

from __future__ import annotations

import time

import pytest

from ortpkg.scale.batches.batch_progress import PartDone, Tally
from ortpkg.scale.batches.package_runner import ChosenVariant


def done(part: int, node: str = "a", **facts: object) -> PartDone:
    variant = ChosenVariant(
        component="model",
        variant=f"of-{node}",
        ep="",
        backend="embedded",
        device="",
        device_type="cpu",
        reason="it is the best",
    )
    told = {"rows": 90, "errors": 10, "worker": f"{node}:1", "variants": (variant,), **facts}
    return PartDone(part=part, node=node, **told)  # type: ignore[arg-type]  # of these types


def test_rates_leave_out_the_time_until_the_first_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tally = Tally(row_count=1000, rows_before=100)
    now += 60
    tally.add(done(0))
    now += 2
    tally.add(done(1))
    assert tally.rate_per_s == 50
    assert tally.remaining_s == (1000 - 100 - 200) / 50
    assert tally.elapsed_s == 62


def test_nodes_say_what_ran_there_and_notes_come_once() -> None:
    tally = Tally(row_count=1000)
    for part, node, worker in ((0, "b", "b:1"), (1, "a", "a:1"), (2, "a", "a:2")):
        tally.add(done(part, node, worker=worker, notes=("it failed",)))
    assert [(each.node, each.workers, each.parts, each.rows) for each in tally.nodes()] == [
        ("a", 2, 2, 180),
        ("b", 1, 1, 90),
    ]
    assert tally.workers == 3
    assert tally.notes == ["b: it failed", "a: it failed"]
