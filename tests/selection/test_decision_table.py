"""The decision tables: variants × machines → verdict codes, and machines × policies × filters → the choice.

The tables are data, written by hand from the rules in docs/selection.md; the machines are constructed.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.reasons import main_verdict
from ortpkg.selection.verdict import Selection, Verdict

_HERE = Path(__file__).parent


def _rows(name: str) -> list[dict[str, str]]:
    with (_HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


_ELIGIBILITY = [
    (row["variant"], machine, code)
    for row in _rows("eligibility.csv")
    for machine, code in row.items()
    if machine != "variant"
]
_RANKING = _rows("ranking.csv")


def test_the_tables_are_not_small() -> None:
    assert len(_ELIGIBILITY) >= 150
    assert len(_RANKING) >= 50


@pytest.mark.requirement("K07")
@pytest.mark.requirement("K08")
@pytest.mark.requirement("K09")
@pytest.mark.requirement("K10")
@pytest.mark.parametrize(("variant", "machine", "code"), _ELIGIBILITY)
def test_a_variant_alone_gets_the_code_of_the_table(
    variant: str, machine: str, code: str, machines: dict[str, Any], variants: dict[str, VariantInfo], select: Any
) -> None:
    selection = select(machines[machine], [variants[variant]])

    assert main_verdict(selection.verdicts).code.value == code


@pytest.mark.requirement("K12")
@pytest.mark.parametrize("row", _RANKING, ids=lambda row: ",".join(row.values()))
def test_the_choice_is_that_of_the_table(
    row: dict[str, str], machines: dict[str, Any], variants: dict[str, VariantInfo], select: Any
) -> None:
    chosen = [variants[name] for name in row["variants"].split()]

    selection: Selection = select(
        machines[row["machine"]], chosen, policy=row["policy"], device=row["device"] or None, ep=row["ep"] or None
    )

    assert _shown(selection) == row["selected"]
    if row["decided_by"]:
        assert _runner_up(selection).decided_by == row["decided_by"]


def _runner_up(selection: Selection) -> Verdict:
    """The best of another variant; where there is only one, its second-best EP device."""
    assert selection.best is not None
    losers = [verdict for verdict in selection.verdicts if verdict.decided_by is not None]
    others = [verdict for verdict in losers if verdict.variant is not selection.best.variant]
    return (others or losers)[0]


def _shown(selection: Selection) -> str:
    if selection.best is None:
        return ""
    ep_device = selection.best.ep_device
    assert ep_device is not None
    device = "" if ep_device.device is None else ep_device.device.type.value
    return f"{selection.best.variant.name} {ep_device.backend} {device}"
