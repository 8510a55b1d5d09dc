"""Graph transformers and rewrite rules that a caller gives to a session (docs/transformers.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidSessionOptionError, SessionError
from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import replace_nodes
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from tests.session.conftest import model_of, options_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "transformers.md"
TEXT = """g (float[2] x) => (float[2] y) {
    c = Constant<value = float {4}>()
    a = Div(x, c)
    y = Neg(a)
}"""
X = {"x": np.array([2, 8], np.float32)}
BRANCHES = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = inner () => (float[2] p) { p = Neg(x) },
                else_branch = other () => (float[2] q) { q = Abs(x) }> }"""


def negation_to_abs(graph: Graph, node: Node, _context: ortpkg.TransformContext) -> bool:
    replace_nodes(graph, [node], "Abs", node.inputs)
    return True


RULE = ortpkg.RewriteRule(
    name="negation-to-abs", op_types=frozenset({"Neg"}), rewrite=negation_to_abs
)


class Recorder:
    """Notes what it is shown."""

    def __init__(self, name: str, into: list[Any]) -> None:
        self.name = name
        self._into = into

    def apply(self, graph: Graph, _context: ortpkg.TransformContext) -> int:
        self._into.append(
            (self.name, graph.name, sorted({node.execution_provider for node in graph.nodes}))
        )
        return 0


class Doing:
    """A transformer that does what it is told to."""

    name = "doing"

    def __init__(self, do: Any) -> None:
        self.apply = do


def session_of(text: str, transformers: Any, **options: Any) -> ortpkg.InferenceSession:
    return ortpkg.InferenceSession(
        model_of(text).SerializeToString(),
        options_of(**options),
        providers=["cpu"],
        transformers=transformers,
    )


@pytest.mark.requirement("D03")
@pytest.mark.parametrize("level", ortpkg.TransformLevel, ids=lambda level: level.name)
def test_a_rule_changes_the_graph_at_each_level(level: ortpkg.TransformLevel) -> None:
    with session_of(TEXT, {level: [RULE]}) as session:
        assert session.run(None, X)[0].tolist() == [0.5, 2]


@pytest.mark.requirement("P05")
@pytest.mark.requirement("D03")
def test_before_the_partition_nodes_are_nobodys_and_after_it_they_have_a_provider() -> None:
    seen: list[Any] = []
    session_of(TEXT, {level: [Recorder(level.name, seen)] for level in ortpkg.TransformLevel})
    assert list(dict.fromkeys((name, *eps) for name, _, eps in seen)) == [
        ("BASIC", ""),
        ("DEFAULT", "CPUExecutionProvider"),
        ("EXTENDED", "CPUExecutionProvider"),
        ("LAYOUT", "CPUExecutionProvider"),
    ]


@pytest.mark.requirement("D03")
def test_graphs_inside_nodes_come_first_and_order_is_as_given() -> None:
    seen: list[Any] = []
    session_of(
        BRANCHES,
        {ortpkg.TransformLevel.LAYOUT: [Recorder("first", seen), Recorder("second", seen)]},
    )
    assert [(name, graph) for name, graph, _ in seen] == [
        (name, graph) for name in ("first", "second") for graph in ("inner", "other", "g")
    ]


@pytest.mark.requirement("D03")
def test_transformers_of_ones_own_come_after_the_built_in_ones_of_their_level() -> None:
    seen: list[list[str]] = []

    def look(graph: Graph, _context: ortpkg.TransformContext) -> int:
        seen.append([node.op_type for node in graph.nodes])
        return 0

    session_of(
        "g (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }", {"BASIC": [Doing(look)]}
    ).close()
    assert seen[0] == ["Neg"]


@pytest.mark.requirement("P17")
def test_the_optimization_level_switches_all_levels_off_but_the_default_one() -> None:
    seen: list[Any] = []
    added = {level: [Recorder(level.name, seen)] for level in ortpkg.TransformLevel}
    session_of(TEXT, added, graph_optimization_level=ortpkg.GraphOptimizationLevel.ORT_DISABLE_ALL)
    assert {name for name, *_ in seen} == {"DEFAULT"}


def test_a_level_may_be_named_by_its_name() -> None:
    with session_of(TEXT, {"basic": [RULE]}) as session:
        assert session.run(None, X)[0].tolist() == [0.5, 2]


def test_what_is_no_level_or_no_transformer_is_an_error_that_says_so() -> None:
    with pytest.raises(
        InvalidSessionOptionError, match=r"'fast' is none of TransformLevel.DEFAULT, "
    ):
        session_of(TEXT, {"fast": [RULE]})
    with pytest.raises(
        InvalidSessionOptionError, match="'str' is neither a RewriteRule nor a graph transformer"
    ):
        session_of(TEXT, {ortpkg.TransformLevel.BASIC: ["negate"]})


@pytest.mark.parametrize(
    ("given", "found"), [([RULE], "list"), ({"basic": RULE}, "RewriteRule"), ("basic", "str")]
)
def test_what_is_no_list_by_level_is_an_error_that_says_so(given: Any, found: str) -> None:
    with pytest.raises(InvalidSessionOptionError, match=f"'{found}' where {{level: "):
        session_of(TEXT, given)


def raising(_graph: Graph, _context: ortpkg.TransformContext) -> int:
    raise KeyError("where")


def renaming(graph: Graph, _context: ortpkg.TransformContext) -> int:
    graph.set_outputs(["a"])
    return 1


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (raising, r"the graph transformer 'doing' failed in graph 'g': 'where'"),
        (renaming, r"'doing' changed the inputs or outputs of graph 'g'"),
        (
            lambda _graph, _context: None,
            r"'doing' must return how many changes it made, not 'None'",
        ),
    ],
    ids=["raises", "changes the outputs", "returns nothing"],
)
def test_a_transformer_that_breaks_the_contract_is_an_error_that_names_it(
    do: Any, message: str
) -> None:
    with pytest.raises(SessionError, match=message):
        session_of(TEXT, {ortpkg.TransformLevel.BASIC: [Doing(do)]})


def _blocks(document: Path) -> Sequence[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL)


@pytest.mark.requirement("D03")
def test_the_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(TEXT), "model.onnx")
    space: dict[str, Any] = {}
    for block in _blocks(DOCUMENT):
        exec(block, space)
        if "counter" not in space:
            assert "Div" not in [
                step.op_type for step in space["session"]._state.executable.plan.steps
            ]
        np.testing.assert_array_equal(space["session"].run(None, X)[0], [-0.5, -2])
    assert space["counter"].counts
    assert CPUExecutionProvider.__name__ in space["session"].get_providers()
