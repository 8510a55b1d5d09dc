"""Compiled variants beside plain ones: what the verdicts say (what they decide: the tables)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ortpkg.selection.matching.verdict import ReasonCode
from tests.selection.conftest import make_records

_RECORDS = json.loads((Path(__file__).parent / "records.json").read_text())


def _reason(selection: Any, name: str) -> str:
    return str(
        next(
            each.reason
            for each in selection.verdicts
            if each.variant.name == name and each.code is ReasonCode.LOWER_RANK
        )
    )


@pytest.mark.requirement("K12")
def test_the_reason_of_a_compiled_variant_that_is_slower_has_both_times(
    machines: Any, variants: Any, select: Any
) -> None:
    machine = machines["server"]
    records = make_records(_RECORDS["compiled-slower"], machine)
    selection = select(machine, [variants["fp32"], variants["ov-slow"]], records=records)
    assert _reason(selection, "ov-slow") == (
        "it can run, but measured here, it is slower than plain variant 'fp32': median 911.0 ms,"
        " and 436.0 ms there"
    )


def test_the_reason_of_a_compiled_variant_that_covers_little_has_its_share_and_the_remedy(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["server"], [variants["fp32"], variants["ov-partial"]])
    assert _reason(selection, "ov-partial") == (
        "it can run, but its code covers 41% of the work, and plain variant 'fp32' runs on"
        " onnxruntime here; ortpkg bench measures which is faster"
    )


def test_code_in_many_pieces_comes_after_a_plain_variant_for_what_calls_of_them_cost(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["server"], [variants["fp32"], variants["ov-pieces"]])
    assert _reason(selection, "ov-pieces") == (
        "it can run, but its code covers 99% of the work in pieces, and calls of them and of the"
        " nodes between them add 170%, and plain variant 'fp32' runs on onnxruntime here; ortpkg"
        " bench measures which is faster"
    )


@pytest.mark.parametrize("calls", ["many", -1, True, float("inf"), None])
def test_calls_that_are_no_number_count_as_none(
    machines: Any, variants: Any, select: Any, calls: Any
) -> None:
    share = {"nodes": 0.8, "work": 0.99, "calls": calls}
    odd = dataclasses.replace(variants["ov-pieces"], metadata={"compiled_share": share})
    assert select(machines["server"], [variants["fp32"], odd]).best.variant is odd


def test_the_reason_of_a_plain_variant_names_the_compiled_one_that_is_faster(
    machines: Any, variants: Any, select: Any
) -> None:
    machine = machines["server"]
    records = make_records(_RECORDS["compiled-faster"], machine)
    selection = select(machine, [variants["fp32"], variants["ov-partial"]], records=records)
    assert _reason(selection, "fp32") == (
        "it can run, but 'ov-partial' is compiled, and was measured here as faster"
    )


def test_stale_records_leave_the_share_to_decide(machines: Any, variants: Any, select: Any) -> None:
    machine = machines["server"]
    facts = {**_RECORDS["compiled-faster"], "stale": "a driver changed"}
    records = make_records(facts, machine)
    selection = select(machine, [variants["fp32"], variants["ov-partial"]], records=records)
    assert selection.best.variant.name == "fp32"


def test_of_several_compiled_variants_that_are_faster_the_fastest_is_chosen(
    machines: Any, variants: Any, select: Any
) -> None:
    machine = machines["server"]
    facts = json.loads(json.dumps(_RECORDS["compiled-faster"]))
    facts["measurements"][1]["p50_ms"] = 90.0
    records = make_records(facts, machine)
    chosen = [variants[name] for name in ("fp32", "ov-partial", "ov-recompile")]
    assert select(machine, chosen, records=records).best.variant.name == "ov-recompile"


@pytest.mark.parametrize("share", [{"nodes": 2}, {"work": "most"}, [], {"work": True}, {}])
def test_a_share_that_is_none_counts_as_unknown(
    machines: Any, variants: Any, select: Any, share: Any
) -> None:
    odd = dataclasses.replace(variants["ov-partial"], metadata={"compiled_share": share})
    assert select(machines["server"], [variants["fp32"], odd]).best.variant is odd
