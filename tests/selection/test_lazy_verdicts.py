"""Verdicts and variants are made at the first look, once, and are otherwise tuples."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY, LazyTuple
from ortpkg.package.formats.variants import LazyVariants
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.verdict import Verdict
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.selection.conftest import rate


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


def test_of_many_variants_a_selection_makes_the_winner_alone(machines: Any, variants: Any) -> None:
    made: list[str] = []

    @dataclass(frozen=True)
    class Checked:
        name: str
        constraints: Constraints = variants["cpu"].constraints
        model_path: str | None = None
        session_options: Mapping[str, str] = EMPTY
        provider_options: Mapping[str, str] = EMPTY

        def make(self) -> VariantInfo:
            made.append(self.name)
            variant: VariantInfo = replace(variants["cpu"], name=self.name)
            return variant

    component = ComponentInfo(
        name="model",
        directory=variants["cpu"].directory,
        variants=LazyVariants([Checked(f"v{number}") for number in range(100)]),
    )
    machine = machines["rtx"]
    request = make_request(
        component,
        machine.ep_devices,
        SelectionWishes(),
        hardware=machine.hardware,
        compatibility=rate,
    )

    selection = select_ep_devices(component, request)

    assert selection.best is not None
    assert made == [selection.best.variant.name] == ["v0"]
