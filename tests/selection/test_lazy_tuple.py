"""Verdicts are made at the first look, once, and are otherwise a tuple."""

from __future__ import annotations

import pickle
from typing import Any

from ortpkg.selection.lazy_tuple import LazyTuple
from ortpkg.selection.verdict import Verdict


def test_verdicts_are_made_once_and_only_when_looked_at(
    machines: Any, variants: Any, select: Any
) -> None:
    all_of_them = tuple(select(machines["rtx"], [variants["cuda"], variants["cpu"]]).verdicts)
    calls = []

    def make() -> tuple[Verdict, ...]:
        calls.append(1)
        return all_of_them

    lazy = LazyTuple(make)
    assert calls == []
    assert tuple(lazy) == all_of_them
    assert len(lazy) == len(all_of_them)
    assert lazy[0] == all_of_them[0]
    assert tuple(lazy[1:]) == all_of_them[1:]
    assert calls == [1]


def test_verdicts_pickle_and_print_as_a_tuple(machines: Any, variants: Any, select: Any) -> None:
    verdicts = select(machines["rtx"], [variants["cuda"], variants["cpu"]]).verdicts

    copied = pickle.loads(pickle.dumps(verdicts))

    assert type(copied) is tuple
    assert copied == verdicts
    assert repr(verdicts) == repr(copied)
    assert hash(select(machines["rtx"], []).verdicts) == hash(())


def test_the_winner_is_known_without_making_verdicts_and_is_the_first_of_them(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["core-ultra"], [variants["ov"], variants["cpu"], variants["cuda"]])

    assert selection.verdicts[0] is selection.best
