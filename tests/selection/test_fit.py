"""What selections say of fit and of records: reasons, notes and warnings.

Codes are in decision_table.csv.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.graph.needed_operators import NOTHING, ModelOperators
from ortpkg.package.package_info import VariantInfo
from ortpkg.runtime.providers.operator_support import OperatorSupport
from ortpkg.selection.matching.measurements import SelectionRecords
from ortpkg.selection.matching.operators import OperatorEvidence
from ortpkg.selection.matching.verdict import ReasonCode, Selection, Verdict
from tests.selection.conftest import make_records

_RECORDS = json.loads((Path(__file__).parent / "records.json").read_text(encoding="utf-8"))
_UNMEASURED = (
    "nothing was measured on this machine (ortpkg bench does); the order is that of policy default"
)


@pytest.fixture
def on_edge(machines: Any, variants: Any, select: Any) -> Any:
    """on_edge("v w", records="...", **wishes): these variants on the machine with memory."""

    def call(
        names: str, *, records: str = "", limits: dict[str, Any] | None = None, **wishes: Any
    ) -> Selection:
        found = make_records(_RECORDS[records], machines["edge"]) if records else None
        chosen = [variants[name] for name in names.split()]
        selection: Selection = select(
            machines["edge"], chosen, records=found, **(limits or {}), **wishes
        )
        return selection

    return call


def _first(selection: Selection, code: ReasonCode) -> Verdict:
    return next(verdict for verdict in selection.verdicts if verdict.code is code)


def test_an_estimate_from_the_size_of_files_says_that_it_is_one(on_edge: Any) -> None:
    reason = _first(on_edge("big"), ReasonCode.MEMORY_TOO_SMALL).reason

    assert (
        reason
        == "it needs at least 4.6 GB of memory (the size of its files); 5.0 GB are free here, of"
        " which 90% count"
    )


def test_declared_memory_counts_before_the_estimate(on_edge: Any) -> None:
    reason = _first(on_edge("hungry"), ReasonCode.MEMORY_TOO_SMALL).reason

    assert reason.startswith("it needs 6.0 GB of memory (declared); 5.0 GB are free here")


def test_measured_memory_counts_before_the_declared_one(on_edge: Any) -> None:
    reason = _first(on_edge("int8", records="int8-memory"), ReasonCode.MEMORY_TOO_SMALL).reason

    assert reason.startswith("it needs 4.9 GB of memory (measured here)")


def test_a_device_that_does_not_tell_what_is_free_is_judged_by_all_it_has(on_edge: Any) -> None:
    reason = _first(on_edge("gpu-big"), ReasonCode.MEMORY_TOO_SMALL).reason

    assert reason.endswith("; this device has 6.0 GB in all")


def test_a_variant_of_which_nothing_is_recorded_is_kept_and_its_verdict_says_so(
    on_edge: Any,
) -> None:
    assert on_edge("bare").best.notes == (
        "memory not checked: neither its peak memory nor its size is recorded",
    )


def test_a_limit_that_could_not_be_checked_of_the_winner_is_warned_of(on_edge: Any) -> None:
    limits = {
        "max_size": 1,
        "min_precision": "fp32",
        "max_memory": 10,
        "max_latency": 1.0,
        "max_error": 1.0,
    }

    assert on_edge("bare", limits=limits).warnings == (
        "nothing was measured on this machine (ortpkg bench does)",
        "variant 'bare': size not checked: it is not recorded",
        "variant 'bare': precision not checked: neither quantization nor data types are recorded",
        "variant 'bare': memory not checked: neither its peak memory nor its size is recorded",
        "variant 'bare': latency not checked: not measured here",
        "variant 'bare': error not checked: not measured here",
    )


def test_sizes_that_the_caller_counted_fill_what_is_not_recorded(on_edge: Any) -> None:
    selection = on_edge("bare", limits={"max_size": "1kB"}, sizes={"bare": 2000})

    assert (
        _first(selection, ReasonCode.SIZE_TOO_LARGE).reason
        == "its files have 2.0 kB; at most 1.0 kB was asked for"
    )


def test_a_key_that_no_variant_records_is_a_usage_error_with_the_nearest_one(on_edge: Any) -> None:
    with pytest.raises(
        UsageError,
        match=(
            r"no variant records 'quantisation' in its metadata \(did you mean 'quantization'\?\);"
            r" recorded"
        ),
    ):
        on_edge("fp32 int8", limits={"where": ["quantisation=int8"]})


def test_a_variant_without_the_metadata_that_others_have_does_not_match(on_edge: Any) -> None:
    selection = on_edge("int8 bare", limits={"where": {"quantization": "int8"}})

    assert (
        _first(selection, ReasonCode.METADATA_MISMATCH).reason
        == "quantization=int8 was asked for, and it records no 'quantization'"
    )


def test_the_limits_stand_in_the_selection(on_edge: Any) -> None:
    assert on_edge("int8", limits={"max_size": "2GB"}).limits == ("size up to 2.0 GB",)


# --- records --------------------------------------------------------------------------------------


def test_the_fastest_measured_wins_and_the_others_say_by_how_much(on_edge: Any) -> None:
    selection = on_edge("fp32 int8 gpu-fp16", records="int8-fastest", policy="measured")
    loser = next(verdict for verdict in selection.verdicts if verdict.variant.name == "gpu-fp16")

    assert selection.best.notes == (
        "measured here: median 2.0 ms, 95% within 2.5 ms, 1.2 GB of memory, outputs within 0.02",
    )
    assert loser.reason == "it can run, but 'int8' is faster here: median 2.0 ms, this one 3.0 ms"
    assert selection.warnings == ()


def test_what_was_not_measured_ranks_after_what_was(on_edge: Any) -> None:
    selection = on_edge("bare npu-int4", records="int8-fastest", policy="measured")

    assert selection.best.variant.name == "npu-int4"
    assert (
        _first(selection, ReasonCode.LOWER_RANK).reason
        == "it can run, but 'npu-int4' was measured on this machine, this one was not"
    )


def test_without_measurements_the_order_is_the_default_and_that_is_said(on_edge: Any) -> None:
    selection = on_edge("int8 npu-int4", policy="measured")

    assert selection.best.variant.name == "npu-int4"
    assert selection.warnings == (_UNMEASURED,)


def test_a_record_that_cannot_be_read_is_not_called_stale(
    make_variant: Any, machines: Any, select: Any
) -> None:
    records = SelectionRecords(stale_reason="the file 'r.json' is ignored: it is damaged")

    selection = select(
        machines["bare"], [make_variant("v", ep="cpu")], records=records, policy="measured"
    )

    assert selection.warnings[0].startswith(
        "what was measured here cannot be used (the file 'r.json' is ignored: it is damaged):"
        " measure again with "
    )


def test_stale_measurements_are_warned_of_and_do_not_count(on_edge: Any) -> None:
    selection = on_edge("int8 gpu-fp16", records="stale", policy="measured")

    assert selection.best.variant.name == "gpu-fp16"
    assert selection.warnings == (
        (
            "the measurements are stale (the driver of the GPU changed): measure again with ortpkg"
            " bench; the order is that of policy default"
        ),
    )


@pytest.mark.parametrize("policy", ["default", "prefer-npu", "measured"])
def test_what_is_in_quarantine_is_passed_over_under_every_policy_and_the_user_is_told(
    on_edge: Any, policy: str
) -> None:
    selection = on_edge("int8 npu-int4", records="npu-crashed", policy=policy)

    assert selection.best.variant.name == "int8"
    assert (
        "variant 'npu-int4' is passed over on OpenVINOExecutionProvider (openvino) on NPU (AI"
        " Boost): QUARANTINED: it crashed with OpenVINOExecutionProvider (2026.1) on"
        " 2026-11-20T10:00:00+00:00: 'exit code -11'" in selection.warnings
    )


def test_quarantine_of_another_version_of_the_ep_is_over(on_edge: Any) -> None:
    selection = on_edge("int8 npu-int4", records="old-npu-crashed")

    assert (selection.best.variant.name, selection.warnings) == ("npu-int4", ())


def test_stale_measurements_do_not_lift_quarantine(on_edge: Any) -> None:
    assert on_edge("int8 npu-int4", records="stale").best.variant.name == "int8"


def test_outputs_that_were_wrong_here_are_a_reason_of_their_own(on_edge: Any) -> None:
    selection = on_edge("int8", records="int8-wrong")

    assert selection.best.ep_device.backend == "embedded"
    assert (
        _first(selection, ReasonCode.CANARY_FAILED).reason
        == "its outputs were not the package's expected ones here (up to 0.9 away)"
    )


def test_records_of_another_component_do_not_count(
    machines: Any, variants: Any, select: Any
) -> None:
    records = make_records(_RECORDS["npu-crashed"], machines["edge"])
    (entry,) = records.quarantined
    other = SelectionRecords(
        quarantined=(type(entry)(**{**_facts(entry), "component_name": "other"}),)
    )

    assert select(machines["edge"], [variants["npu-int4"]], records=other).best is not None


@pytest.mark.parametrize("time_s", [float("nan"), float("inf")])
def test_a_time_that_is_none_does_not_count(
    machines: Any, variants: Any, select: Any, time_s: float
) -> None:
    records = make_records(_RECORDS["int8-fastest"], machines["edge"])
    odd = SelectionRecords(
        measurements=tuple(
            type(each)(**{**_facts(each), "p50_s": time_s}) for each in records.measurements
        )
    )

    assert select(
        machines["edge"], [variants["int8"]], records=odd, policy="measured"
    ).warnings == (_UNMEASURED,)


def _facts(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


# --- compatibility and architecture ---------------------------------------------------------------


def test_what_a_compiled_variant_lacks_on_the_machine_is_part_of_the_reason(
    machines: Any, make_variant: Any, select: Any
) -> None:
    compiled = make_variant("compiled", ep="OpenVINOExecutionProvider", compat="EP_UNSUPPORTED")

    selection = select(
        machines["core-ultra"], [compiled], compiled_refusal=lambda *_: "the CPU lacks avx512f"
    )

    reason = _first(selection, ReasonCode.COMPILED_MODEL_UNSUPPORTED).reason
    assert reason.endswith("compiled for: 'EP_UNSUPPORTED': the CPU lacks avx512f"), reason


def test_a_winner_that_would_be_better_recompiled_is_warned_of(
    machines: Any, variants: Any, select: Any
) -> None:
    chosen: list[VariantInfo] = [variants["ov-recompile"], variants["cpu"]]

    assert select(machines["core-ultra"], chosen).warnings == (
        (
            "variant 'ov-recompile' was compiled for an older version: it runs, and would be better"
            " recompiled"
        ),
    )


def test_what_loses_because_it_prefers_recompilation_has_a_code_of_its_own(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["core-ultra"], [variants["ov-recompile"], variants["ov"]])

    assert _first(selection, ReasonCode.PREFERS_RECOMPILATION).is_eligible


def test_a_rating_that_nobody_here_can_give_is_shown(
    machines: Any, make_variant: Any, select: Any
) -> None:
    variant = make_variant("v", ep="openvino", compat="COMPATIBILITY_UNKNOWN")

    assert (
        "variant 'v': whether OpenVINOExecutionProvider takes its compatibility string cannot be"
        " told here (COMPATIBILITY_UNKNOWN)" in select(machines["core-ultra"], [variant]).warnings
    )


def test_the_same_architecture_beats_an_ancestor_and_a_near_one_a_far_one(
    machines: Any, variants: Any, select: Any
) -> None:
    chosen = [variants[name] for name in ("bare", "arch-old", "arch-near", "arch-own")]
    selection = select(machines["core-ultra"], chosen, check_architecture=True)

    assert [verdict.variant.name for verdict in selection.verdicts if verdict.is_eligible] == [
        "arch-own",
        "arch-near",
        "arch-old",
        "bare",
    ]
    assert (
        selection.verdicts[1].reason
        == "it can run, but 'arch-own' is for an architecture that is nearer to this machine's"
    )


def test_two_backends_of_one_ep_are_both_judged_and_the_faster_one_is_taken(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["server"], [variants["cpu"]])
    eligible = [each.ep_device.backend for each in selection.verdicts if each.is_eligible]

    assert eligible == ["onnxruntime", "embedded"]
    assert selection.verdicts[1].decided_by == "backend"


def test_operators_count_where_nothing_is_known_of_memory(
    machines: Any, make_variant: Any, select: Any
) -> None:
    needs = {"custom": ModelOperators(operators=(("acme.ops", "Thing"),)), "plain": NOTHING}
    evidence = OperatorEvidence(
        needs=lambda variant: needs[variant.name],
        support=lambda _device, needed: OperatorSupport(missing=needed),
    )
    assert all(device.memory_nbytes is None for device in machines["bare"].hardware)

    found = select(
        machines["bare"], [make_variant("custom"), make_variant("plain")], operators=evidence
    )

    assert found.best.variant.name == "plain"
    assert _first(found, ReasonCode.OPERATOR_NOT_AVAILABLE).variant.name == "custom"


def test_only_variants_before_the_winner_that_lack_an_operator_are_said_to_be_passed_over(
    machines: Any, make_variant: Any, select: Any
) -> None:
    custom = ModelOperators(operators=(("acme.ops", "Thing"),))
    evidence = OperatorEvidence(
        needs=lambda variant: custom if variant.name.startswith("custom") else NOTHING,
        support=lambda _device, needed: OperatorSupport(missing=needed),
    )
    names = ("custom", "plain", "custom-later")
    offered = [
        make_variant("absent", ep="CUDAExecutionProvider"),
        *(make_variant(name) for name in names),
    ]

    found = select(machines["bare"], offered, operators=evidence)

    assert found.best.variant.name == "plain"
    (warning,) = [each for each in found.warnings if "is passed over" in each]
    assert warning.startswith("variant 'custom' is passed over on CPUExecutionProvider (embedded)")
    assert "OPERATOR_NOT_AVAILABLE: its model needs operator 'acme.ops:Thing'" in warning


@pytest.mark.parametrize("count", [3, 5])
def test_of_many_variants_that_are_passed_over_the_first_three_are_named(
    machines: Any, make_variant: Any, select: Any, count: int
) -> None:
    custom = ModelOperators(operators=(("acme.ops", "Thing"),))
    evidence = OperatorEvidence(
        needs=lambda variant: NOTHING if variant.name == "plain" else custom,
        support=lambda _device, needed: OperatorSupport(missing=needed),
    )
    names = [*(f"custom{number}" for number in range(count)), "plain"]

    found = select(machines["bare"], [make_variant(name) for name in names], operators=evidence)

    named = [each.split("'")[1] for each in found.warnings if "is passed over" in each]
    assert named == ["custom0", "custom1", "custom2"]
