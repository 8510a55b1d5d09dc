"""A short slice of ``make fuzz`` with fixed seeds: what they once found stays mended."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.fuzz.attacks import attack, attack_model, problem_of
from tests.fuzz.driver import Attack, attack_seeds
from tests.fuzz.kinds import KINDS, NOTHING
from tests.fuzz.microsoft_nodes import model_of_microsoft
from tests.fuzz.mutants import model_of_sizes, mutated_document, mutated_model
from tests.fuzz.operators import _change_size
from tests.fuzz.random_models import random_model

#: Children of the driver, which load all of ours, are copies of one that has.
pytestmark = pytest.mark.usefixtures("warm_processes")

#: Models that broke something, one each.
FINDINGS = Path(__file__).parent / "findings"

#: Seeds that once broke something: arity, attribute kinds, sub-graphs, huge dimensions, types that
#: are not there.
ONCE_BROKEN = (
    2,
    8,
    103,
    104,
    389,
    586,
    590,
    668,
    1086,
    1150,
    1724,
    2283,
    3599,
    3644,
    104013,
    1003918,
    1027386,
)


#: Kind → seconds in which cases begin, and how many run in any case: 7 s in all;
#: what it takes to find something new has ``make fuzz``.
BUDGETS = {
    "models": (1.0, 20), "mutants": (0.75, 10), "operators": (0.75, 10), "shapes": (0.75, 10), "microsoft": (0.75, 10),
    "documents": (0.75, 3), "faults": (0.75, 2), "authoring": (0.75, 2), "memory": (0.5, 5),
    "machine_code": (1.0, 2),
}  # fmt: skip


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_of_each_kind_end_in_a_result_or_a_typed_error(
    kind: str, record_property: Callable[[str, object], None]
) -> None:
    budget_s, least = BUDGETS[kind]
    attack = attack_seeds(range(1000), kind=kind, budget_s=budget_s, least=least)

    record_property("cases", attack.count)
    print(f"{kind}: {attack.count} cases")
    assert attack.count >= least
    assert not attack.findings, shown(attack)


@pytest.mark.timeout(240)
def test_what_was_once_broken_is_mended() -> None:
    attack = attack_seeds(ONCE_BROKEN)

    assert attack.count == len(ONCE_BROKEN)
    assert not attack.findings, shown(attack)


def shown(attack: Attack) -> str:
    return "\n\n".join(f"seed {finding.seed}: {finding.problem}" for finding in attack.findings)


def test_a_sample_takes_no_more_than_twenty_seconds() -> None:
    assert set(BUDGETS) == set(KINDS)
    assert sum(budget_s for budget_s, _ in BUDGETS.values()) <= 20


@pytest.mark.timeout(60)
def test_a_used_budget_begins_no_more_than_the_least_number_of_cases() -> None:
    assert attack_seeds(range(50), kind=NOTHING, budget_s=0.0, least=3).count == 3
    assert attack_seeds(range(50), kind=NOTHING, budget_s=0.0).count == 0


@pytest.mark.parametrize("path", sorted(FINDINGS.glob("*.textproto")), ids=lambda path: path.stem)
def test_a_model_that_once_broke_something_runs_or_is_refused(path: Path) -> None:
    model = text_format.Parse(
        path.read_text(encoding="utf-8"), onnx.ModelProto()
    ).SerializeToString()
    for seed in (0, 1):  # without optimization, and with all
        try:
            problem = attack_model(model, {}, seed)
        except OrtpkgError as error:
            problem = problem_of(error)
        assert problem is None


def test_a_seed_always_means_the_same_model() -> None:
    for seed in range(20):
        assert random_model(seed) == random_model(seed)
        assert mutated_model(seed) == mutated_model(seed)
        assert model_of_sizes(seed) == model_of_sizes(seed)
        assert model_of_microsoft(seed) == model_of_microsoft(seed)
        assert mutated_document(seed, '{"a": [1, {"b": 2}]}') == mutated_document(
            seed, '{"a": [1, {"b": 2}]}'
        )


@pytest.mark.parametrize("sizes", [(2**62, 0), (2**62, 2**62), (-1,)])
def test_the_fuzzer_leaves_a_constant_alone_that_no_array_can_be(sizes: tuple[int, ...]) -> None:
    model = onnx.ModelProto()
    model.graph.initializer.add(data_type=onnx.TensorProto.INT64, dims=sizes)
    before = model.SerializeToString()

    _change_size(random.Random(0), model)

    assert model.SerializeToString() == before


@pytest.mark.timeout(60)
def test_a_crash_is_a_finding_and_the_seeds_behind_it_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_CRASH_AT", "1")
    attack = attack_seeds(range(3), kind=NOTHING)

    assert [finding.seed for finding in attack.findings] == [1]
    assert attack.findings[0].problem.startswith("exit code ")
    assert attack.count == 3


@pytest.mark.timeout(60)
def test_a_child_that_is_killed_leaves_no_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_CRASH_AT", "0")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    attack = attack_seeds([0], kind="documents")

    assert [finding.seed for finding in attack.findings] == [0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets the most memory so far")
def test_a_case_that_takes_too_much_memory_hides_behind_no_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_FILL", "5=400,7=250,8=50")  # in MiB
    attack = attack_seeds(range(5, 9), kind=NOTHING)

    assert [finding.seed for finding in attack.findings] == [5, 7]
    assert all(finding.problem.startswith("memory: grew by") for finding in attack.findings)


@pytest.mark.timeout(60)
def test_a_case_that_sleeps_for_ever_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_FUZZ_SLEEP_AT", "0")
    monkeypatch.setenv("ORTPKG_FUZZ_HANG_S", "1")
    attack = attack_seeds([0], kind=NOTHING)

    assert [finding.seed for finding in attack.findings] == [0]
    assert "Timeout" in attack.findings[0].problem


def test_a_step_that_sleeps_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.attacks._MOST_WALL_S", 0.05)
    monkeypatch.setattr(InferenceSession, "get_inputs", lambda _session: [])
    monkeypatch.setattr(InferenceSession, "run", lambda *_arguments: time.sleep(0.1))

    assert "on the wall" in str(attack_model(plain_model(), {}, 1))


def test_a_shape_function_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_context: object) -> None:
        raise IndexError("no such input")

    monkeypatch.setattr("ortpkg.graph.shapes.inference.find_inference", lambda *_operator: failing)

    assert "IndexError: no such input" in str(attack(1, "Relu"))


def plain_model() -> bytes:
    return bytes(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { y ='
            " Relu(x) }"
        ).SerializeToString()
    )
