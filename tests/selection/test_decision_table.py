"""The decision tables: variants × machines → codes, machines × policies × wishes → choice.

The tables are data, written from the rules in docs/selection.md; the machines are constructed. Each
row of decision_table.csv must also be what the oracle says, which is those rules written a second
time.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.matching.reasons import main_verdict
from ortpkg.selection.matching.verdict import Selection, Verdict
from tests.selection import oracle
from tests.selection.conftest import make_records

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
_DECISIONS = _rows("decision_table.csv")
_FACTS = {
    name: json.loads((_HERE / f"{name}.json").read_text())
    for name in ("machines", "variants", "records")
}
_SIZES = ("max_memory", "max_size")


def test_the_tables_are_not_small() -> None:
    assert len(_ELIGIBILITY) >= 150
    assert len(_RANKING) >= 50
    assert len(_DECISIONS) >= 200


@pytest.mark.requirement("K07")
@pytest.mark.requirement("K08")
@pytest.mark.requirement("K09")
@pytest.mark.requirement("K10")
@pytest.mark.parametrize(("variant", "machine", "code"), _ELIGIBILITY)
def test_a_variant_alone_gets_the_code_of_the_table(
    variant: str,
    machine: str,
    code: str,
    machines: dict[str, Any],
    variants: dict[str, VariantInfo],
    select: Any,
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
        machines[row["machine"]],
        chosen,
        policy=row["policy"],
        device=row["device"] or None,
        ep=row["ep"] or None,
    )

    assert _shown(selection) == row["selected"]
    if row["decided_by"]:
        assert _runner_up(selection).decided_by == row["decided_by"]


@pytest.mark.requirement("K12")
@pytest.mark.parametrize("row", _DECISIONS, ids=lambda row: ",".join(list(row.values())[:5]))
def test_every_verdict_is_that_of_the_table(
    row: dict[str, str], machines: dict[str, Any], variants: dict[str, VariantInfo], select: Any
) -> None:
    wishes = _wishes(row["wishes"])
    names = row["variants"].split()

    selection = _decided(
        row, wishes, machines[row["machine"]], [variants[name] for name in names], select
    )

    assert _codes(selection, names) == row["verdicts"]
    assert _place(selection) == row["place"]


@pytest.mark.parametrize("row", _DECISIONS, ids=lambda row: ",".join(list(row.values())[:5]))
def test_the_oracle_says_the_same_of_the_row(row: dict[str, str]) -> None:
    chosen = {name: _FACTS["variants"][name] for name in row["variants"].split()}
    records = _FACTS["records"].get(row["records"], {})

    answer = oracle.decide(
        _FACTS["machines"][row["machine"]], chosen, row["policy"], _wishes(row["wishes"]), records
    )

    assert " ".join(f"{name}={code}" for name, code in answer.codes.items()) == row["verdicts"]
    assert answer.place == row["place"]


def _decided(
    row: dict[str, str],
    wishes: dict[str, Any],
    machine: Any,
    chosen: list[VariantInfo],
    select: Any,
) -> Any:
    records = make_records(_FACTS["records"][row["records"]], machine) if row["records"] else None
    return select(machine, chosen, policy=row["policy"], records=records, **wishes)


def _wishes(text: str) -> dict[str, Any]:
    """Wishes as text, "device=npu max_size=100 strict_facts": a lone word is true."""
    wishes: dict[str, Any] = {}
    for word in text.split():
        key, _, value = word.partition("=")
        if key.startswith("where."):
            wishes.setdefault("where", {})[key.removeprefix("where.")] = value
        elif key in _SIZES:
            wishes[key] = int(float(value))
        else:
            wishes[key] = float(value) if key in {"max_latency", "max_error"} else value or True
    return wishes


def _codes(selection: Selection, names: list[str]) -> str:
    found = []
    for name in names:
        verdict = main_verdict([each for each in selection.verdicts if each.variant.name == name])
        criterion = {"named EP": "named-EP", "declaration order": "declared"}.get(
            verdict.decided_by or "", ""
        )
        suffix = f"/{criterion or verdict.decided_by}" if verdict.code == "LOWER_RANK" else ""
        found.append(f"{name}={verdict.code}{suffix}")
    return " ".join(found)


def _place(selection: Selection) -> str:
    if selection.best is None:
        return ""
    ep_device = selection.best.ep_device
    assert ep_device is not None
    return f"{ep_device.backend}:{'-' if ep_device.device is None else ep_device.device.type.value}"


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
