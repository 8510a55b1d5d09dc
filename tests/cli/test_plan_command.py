"""plan: partitions, steps and memory of a model or of a package's variant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest

from tests.cli.conftest import DIGITS, RunCommand

MakeModel = Callable[..., Path]


@pytest.mark.requirement("P06")
def test_shows_who_runs_which_nodes(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg("plan", model(), "--nodes")
    assert done.code == 0
    assert "CPUExecutionProvider  main graph" in done.out
    assert "Mul" in done.out


def test_a_variant_of_a_package_is_planned_by_the_embedded_engine(ortpkg: RunCommand) -> None:
    plan = ortpkg("plan", DIGITS, "--variant", "cpu-fp32", "--dim", "batch=8", "--json").json
    (graph,) = plan["graphs"]
    operators = [step["op_type"] for step in graph["steps"]]
    assert operators.count("Conv") == 3
    assert "BatchNormalization" not in operators
    assert graph["unknown_count"] == 0
    assert 0 < graph["least_possible_nbytes"] <= graph["peak_nbytes"]
    assert {value["kind"] for value in graph["values"]} >= {
        "pre_existing",
        "allocate",
        "allocate_output",
    }


def test_without_optimization_the_nodes_are_the_models_own(ortpkg: RunCommand) -> None:
    plan = ortpkg(
        "plan", DIGITS, "--variant", "cpu-fp32", "--optimization-level", "none", "--json"
    ).json
    operators = [step["op_type"] for step in plan["graphs"][0]["steps"]]
    assert "BatchNormalization" in operators


def test_a_backend_that_compiles_shows_its_partition(ortpkg: RunCommand, model: MakeModel) -> None:
    (partition,) = ortpkg("plan", model(), "--backend", "onnxruntime", "--json").json["partitions"]
    assert partition["fused_node"]
    assert [node["op_type"] for node in partition["nodes"]] == ["Mul"]


def test_memory_is_listed_and_drawn(ortpkg: RunCommand, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    done = ortpkg(
        "plan", DIGITS, "--variant", "cpu-fp32", "--dim", "batch=8", "--memory", "--svg", picture
    )
    assert done.code == 0
    assert "memory pattern: peak" in done.out
    assert "allocate_statically" in done.out
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_a_peak_of_symbolic_sizes_is_a_formula(ortpkg: RunCommand) -> None:
    words = ("plan", DIGITS, "--variant", "cpu-fp32")
    unknown, known = ortpkg(*words).out, ortpkg(*words, "--dim", "batch=8").out
    assert "memory pattern: peak at least 12288*batch bytes; weights " in unknown
    assert "0 B" not in unknown
    assert "memory pattern: peak 98.3 kB" in known


def test_sizes_say_in_bytes_what_a_model_with_symbolic_dimensions_takes(ortpkg: RunCommand) -> None:
    words = ("plan", DIGITS, "--variant", "cpu-fp32", "--size", "batch=8")
    assert "memory pattern: peak 98.3 kB" in ortpkg(*words).out
    plan = ortpkg(*words, "--json").json
    (graph,) = plan["graphs"]
    assert (plan["sizes"], graph["peak_nbytes"], graph["peak_formulas"]) == (
        {"batch": 8},
        98304,
        ["12288*batch"],
    )
    first = next(value for value in graph["values"] if value["name"] == "conv1_activated")
    assert (first["nbytes"], first["size"], first["offset"]) == (32768, "4096*batch", 0)


def test_a_dimension_that_is_fixed_has_no_other_size(ortpkg: RunCommand) -> None:
    done = ortpkg("plan", DIGITS, "--variant", "cpu-fp32", "--size", "batch=8", "--dim", "batch=4")
    assert done.code == 2
    assert "--size: --dim fixes 'batch'" in done.err


def test_the_largest_of_several_sums_is_a_maximum(ortpkg: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "attention.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x, float[M,4] k) => (float[N,M] y)
        { a = Neg(x) b = Neg(k) t = Transpose(b) p = MatMul(a, t) q = Exp(p) y = Sin(q) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    (graph,) = ortpkg("plan", path, "--json").json["graphs"]
    assert len(graph["peak_formulas"]) == 2
    assert f"peak at least max({', '.join(graph['peak_formulas'])}) bytes" in " ".join(
        ortpkg("plan", path).out.split()
    )


def test_a_model_without_intermediate_values_has_no_peak(
    ortpkg: RunCommand, model: MakeModel
) -> None:
    unknown, known = ortpkg("plan", model()).out, ortpkg("plan", model(), "--dim", "N=4").out
    for text in map(" ".join, (unknown.split(), known.split())):
        assert "no intermediate values (feeds and outputs are not counted); weights " in text
        assert "peak" not in text
    assert "the size of 1 output is known only in a run" in " ".join(unknown.split())
    assert "known only in a run" not in known


def test_a_peak_of_unknown_sizes_is_not_called_zero(ortpkg: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "two.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y, int64[K] z)
        { h = Identity(x) y = Sin(h) n = NonZero(x) m = Neg(n) z = Sign(m) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    done = ortpkg("plan", path, "--optimization-level", "none").out
    assert (
        "memory pattern: peak unknown; weights 0 B; the sizes of 2 values are known only in a run"
        in " ".join(done.split())
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--optimization-level", "bassic"), "did you mean 'basic'?"),
        (("--dim", "batch"), "--dim takes NAME=SIZE"),
        (("--dim", "batch=-1"), "--dim takes NAME=SIZE"),
        (("--size", "batch"), "--size takes NAME=SIZE"),
        (("--size", f"N={'9' * 99}"), "--size takes NAME=SIZE"),
        (("--size", "length=8"), "--size: the model has no symbolic dimension 'length'"),
        (("--variant", "a"), "is a model, not a package"),
        (("--svg", "no-such-folder/plan.svg"), "there is no directory 'no-such-folder'"),
    ],
)
def test_usage_errors_say_what_would_be_right(
    ortpkg: RunCommand, model: MakeModel, words: tuple[str, str], message: str
) -> None:
    done = ortpkg("plan", model(), *words)
    assert done.code == 2
    assert message in done.err


def test_a_dimension_that_the_model_does_not_have_is_wrong_usage(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    done = ortpkg("plan", DIGITS, "--variant", "cpu-fp32", "--dim", "bach=8")
    assert done.code == 2
    assert (
        "no symbolic dimension 'bach' (did you mean 'batch'?); its symbolic dimensions are 'batch'"
        in done.err
    )
    assert ortpkg("plan", model(), "--dim", "N=8").code == 0

    path = tmp_path / "fixed.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    done = ortpkg("plan", path, "--dim", "batch=8")
    assert done.code == 2
    assert "no symbolic dimension 'batch'; it has none" in done.err


def test_a_node_nobody_can_run_is_named(ortpkg: RunCommand, tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "nobody" : 3]> g (float[2] x) => (float[2] y) { y'
        " = nobody.Magic(x) }"
    )
    path = tmp_path / "magic.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    done = ortpkg("plan", path)
    assert done.code == 5
    assert "'Magic' of domain 'nobody', opset 3" in done.err


@pytest.mark.requirement("M03")
def test_both_policies_of_partitioning_are_shown_with_their_costs(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(
        '{"providers": {"openvino": {"seconds_per_node": 0.001, "seconds_per_operation": 0},'
        ' "cpu": {"seconds_per_node": 0.5, "seconds_per_operation": 0}}}'
    )
    words = ("plan", model(), "--ep", "openvino", "--costs", costs)
    done = ortpkg(*words, "--partition", "cost")
    assert done.code == 0
    assert "first-come" in done.out
    assert "OpenVINOExecutionProvider stated" in done.out
    (choice,) = ortpkg(*words, "--partition", "cost", "--json").json["policies"]
    assert choice["cost"]["nodes"] == {"OpenVINOExecutionProvider": 1}
    assert choice["cost"]["compute_s"] == pytest.approx(0.001)
    costs.write_text(costs.read_text().replace("0.001", "0.9"))
    (choice,) = ortpkg(*words, "--partition", "cost", "--json").json["policies"]
    assert choice["first_come"]["nodes"] == {"OpenVINOExecutionProvider": 1}
    assert (choice["cost"]["nodes"], choice["differs"]) == ({"CPUExecutionProvider": 1}, True)
    assert ortpkg(*words, "--json").json["policies"] == []


def test_a_policy_of_partitioning_that_there_is_not_is_wrong_usage(
    ortpkg: RunCommand, model: MakeModel
) -> None:
    done = ortpkg("plan", model(), "--partition", "cheap")
    assert (done.code, "--partition is one of first-come, cost" in done.err) == (2, True)


@pytest.mark.parametrize("last", ["2", "N"])
def test_values_that_no_memory_holds_are_of_unknown_size(
    ortpkg: RunCommand, tmp_path: Path, last: str
) -> None:
    shape = ", ".join(["4611686018427387904"] * 20 + [last])
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{shape}] x) => (float[{shape}] y) '
    onnx.save(onnx.parser.parse_model(text + "{ z = Neg(x) y = Neg(z) }"), tmp_path / "m.onnx")

    done = ortpkg("plan", tmp_path / "m.onnx", "--memory")

    assert done.code == 0
    assert "peak unknown" in done.out
    assert "4*(size of z)" in done.out
