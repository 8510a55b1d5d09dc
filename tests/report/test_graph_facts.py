"""Facts of graphs: what the file says, what runs, and who runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import (
    ElementType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)
from ortpkg.report import graph_facts as module
from ortpkg.report.graph_facts import GraphFacts, loaded_graph_facts, type_text, unique_names
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.report.graph_samples import BRANCHES, MIXED, facts_of, model_file

CPU, LLVM = "CPUExecutionProvider", "LLVMExecutionProvider"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return model_file(tmp_path, MIXED)


def test_nodes_of_the_file_stand_in_execution_order_with_what_they_take_and_make(
    mixed: Path,
) -> None:
    (facts,) = facts_of(mixed)
    names = [node.name for node in facts.before.nodes]
    assert names == ["folded", "first", "product", "sum", "places", "last"]
    product = facts.before.nodes[2]
    assert (product.op_type, product.inputs, product.outputs) == ("MatMul", ("e", "w"), ("m",))
    assert (facts.before.inputs, facts.before.outputs) == (("x",), ("y",))


def test_values_have_types_with_names_of_their_dimensions(mixed: Path) -> None:
    (facts,) = facts_of(mixed)
    assert facts.before.values["m"] == "float32 [N, 4]"
    assert facts.after is not None
    assert facts.after.values["x"] == "float32 [N, 4]"


def test_a_node_that_optimizations_fold_has_no_provider(mixed: Path) -> None:
    (facts,) = facts_of(mixed)
    folded = facts.before.nodes[0]
    assert (folded.provider, folded.partition, folded.step, folded.kernel) == (None, None, None, "")


def test_a_node_that_runs_says_when_on_what_and_by_which_kernel(mixed: Path) -> None:
    (facts,) = facts_of(mixed)
    first = facts.before.nodes[1]
    assert (first.provider, first.step, first.kernel) == (0, 0, "elementwise")
    assert facts.providers[0] == CPU


def test_a_node_that_became_another_operator_has_no_step_of_its_own(mixed: Path) -> None:
    (facts,) = facts_of(mixed)
    added = facts.before.nodes[3]  # in a Gemm now, which has its name
    assert (added.provider, added.step, added.kernel) == (0, None, "")


def test_a_fused_partition_is_one_node_as_it_runs(mixed: Path) -> None:
    (facts,) = facts_of(mixed, backend="llvm")
    assert facts.after is not None
    (fused,) = facts.after.nodes
    (partition,) = facts.partitions
    assert (partition.fused_node, partition.node_count) == (fused.name, 4)
    assert facts.providers[partition.provider] == LLVM
    assert (fused.partition, fused.kernel) == (0, "compiled")
    members = [node.name for node in facts.before.nodes if node.partition == 0]
    assert members == ["first", "sum", "places", "last"]


def test_sub_graphs_are_graphs_of_their_own(tmp_path: Path) -> None:
    main, *branches = facts_of(model_file(tmp_path, BRANCHES), backend="llvm")
    assert main.path == ""
    assert {each.path for each in branches} == {"choice.then_branch", "choice.else_branch"}
    then = next(each for each in branches if each.path == "choice.then_branch")
    assert [node.name for node in then.before.nodes] == ["one", "two"]
    assert [each.node_count for each in then.partitions] == [2]
    assert then.after is not None
    assert [node.kernel for node in then.after.nodes] == ["compiled"]


def test_the_way_to_a_sub_graph_names_all_around_it(tmp_path: Path) -> None:
    text = """g (bool p, float[2] x) => (float[2] y) {
        [outer] y = If(p) <
            then_branch = t () => (float[2] a) {
                [inner] a = If(p) <
                    then_branch = u () => (float[2] b) { [one] b = Exp(x) },
                    else_branch = v () => (float[2] c) { [two] c = Neg(x) }
                >
            },
            else_branch = e () => (float[2] d) { [three] d = Abs(x) }
        >
    }"""
    facts = {item.path: item for item in facts_of(model_file(tmp_path, text))}
    assert set(facts) == {
        "",
        "outer.then_branch",
        "outer.else_branch",
        "outer.then_branch/inner.then_branch",
        "outer.then_branch/inner.else_branch",
    }
    assert all(item.after is not None for item in facts.values())


def test_weights_that_callers_may_give_are_no_inputs_of_the_picture(tmp_path: Path) -> None:
    text = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { [sum] y = Add(x, w) }"
    (facts,) = facts_of(model_file(tmp_path, text))
    assert facts.before.inputs == ("x",)


def test_values_that_optimizations_made_have_their_size(tmp_path: Path) -> None:
    text = """g (float[2, 3] x, float[3, 4] w, float[4] b) => (float[2, 4] y) {
        [product] m = MatMul(x, w) [sum] s = Add(m, b) [last] y = Neg(s)
    }"""
    with InferenceSession(model_file(tmp_path, text)) as session:
        plan = session.get_plan()
    (value,) = (item for item in plan.graph.values if item.name == "s")
    renamed = replace(value, name="made")
    nodes = tuple(replace(node, outputs=("made",)) for node in plan.graph.nodes)
    made = replace(plan, graph=replace(plan.graph, nodes=nodes, values=(renamed,)))
    (facts,) = loaded_graph_facts(load_model(tmp_path / "model.onnx").graph, made)
    assert facts.after is not None
    assert facts.after.values["made"] == "32 bytes"


def test_a_node_takes_what_its_sub_graphs_take(tmp_path: Path) -> None:
    main = facts_of(model_file(tmp_path, BRANCHES))[0]
    assert main.after is not None
    assert main.before.nodes[0].inputs == ("p", "x")
    assert main.after.nodes[0].inputs == ("p", "x")


def test_a_sub_graph_within_a_fused_node_has_no_plan_of_its_own(tmp_path: Path) -> None:
    path = model_file(tmp_path, BRANCHES)
    with InferenceSession(path) as session:
        plan = session.get_plan()
    fused = replace(plan, partitions=(), graph=replace(plan.graph, subgraphs=()))
    main, *branches = loaded_graph_facts(load_model(path).graph, fused)
    assert main.after is not None
    assert [each.after for each in branches] == [None, None]


def test_values_from_around_a_sub_graph_have_types(tmp_path: Path) -> None:
    found = {each.path: each for each in facts_of(model_file(tmp_path, BRANCHES))}
    inner = found["choice.else_branch"]
    assert inner.before.values["x"] == "float32 [65536]"
    assert inner.after is not None
    assert inner.after.values["x"] == "float32 [65536]"


def test_nodes_beyond_the_bound_are_counted(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 4)
    (facts,) = facts_of(mixed)
    assert (len(facts.before.nodes), facts.before.left_out) == (4, 2)
    assert facts.after is not None
    assert facts.after.left_out == 0


def test_graphs_beyond_the_bound_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_GRAPHS", 2)
    assert len(facts_of(model_file(tmp_path, BRANCHES))) == 2


def test_names_that_repeat_or_are_empty_become_unique_and_stay_so() -> None:
    names = ["Add", "Add", "", "Add (2)", "", "Add"]
    found = unique_names(names)
    assert found[0] == "Add"
    assert len(set(found)) == len(names)
    assert all(found)
    assert unique_names(names) == found


def test_the_modules_that_torch_names_are_the_scope(tmp_path: Path) -> None:
    scopes = "['', 'encoder', 'encoder.layers.0', 'encoder.layers.0.linear', 'linear_3']"
    facts = _exported(tmp_path, {"pkg.torch.onnx.name_scopes": scopes})
    assert facts.before.nodes[0].scope == ("encoder", "layers.0", "linear")
    assert facts.after is not None
    assert facts.after.nodes[0].scope == ("encoder", "layers.0", "linear")


@pytest.mark.parametrize("text", ["", "[", "encoder", "[" * 5000, "['only']", "{'a': 1}"])
def test_other_words_in_that_place_are_no_scope(tmp_path: Path, text: str) -> None:
    facts = _exported(tmp_path, {"pkg.torch.onnx.name_scopes": text})
    assert facts.before.nodes[0].scope == ()


def _exported(folder: Path, metadata: dict[str, str]) -> GraphFacts:
    node = helper.make_node("Exp", ["x"], ["y"], name="node_linear_3")
    for key, value in metadata.items():
        node.metadata_props.add(key=key, value=value)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    path = folder / "model.onnx"
    imports = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    (facts,) = facts_of(path)
    return facts


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (None, ""),
        (TensorType(ElementType.FLOAT, ("batch", 128, None)), "float32 [batch, 128, ?]"),
        (TensorType(ElementType.DOUBLE, ()), "float64 []"),
        (TensorType(ElementType.INT64), "int64"),
        (SparseTensorType(ElementType.FLOAT16, (2,)), "sparse float16 [2]"),
        (SequenceType(TensorType(ElementType.FLOAT)), "seq(tensor(float))"),
        (OptionalType(TensorType(ElementType.BOOL)), "optional(tensor(bool))"),
    ],
)
def test_types_are_written_for_people(known: ValueType | None, text: str) -> None:
    assert type_text(known) == text
