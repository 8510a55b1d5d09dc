"""A provider that nobody named takes most of a model's work, or nothing of it."""

from __future__ import annotations

import pytest

from ortpkg.ep_context.claim_refusals import ClaimRefusal
from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.topology import topological_order
from ortpkg.providers.execution_provider import ComputeCapability, GraphViewer
from ortpkg.providers.model_share import takes_most
from ortpkg.providers.native_claims import MOST_REFUSALS, NativeClaims
from ortpkg.providers.native_library import CompiledModel, NativeLibrary, NativeModel
from ortpkg.shapes.inference import infer_types
from tests.session.conftest import model_of


def graph_of(body: str) -> Graph:
    model: Model = load_model(model_of(body).SerializeToString())
    infer_types(model)
    return model.graph


PRODUCT = """g (float[256,256] x, int64[4] n) => (float[256,256] y, int64[4] m) {
    a = MatMul(x, x) y = Exp(a) m = Neg(n)
}"""


def test_a_product_is_most_of_a_model() -> None:
    graph = graph_of(PRODUCT)

    assert takes_most(graph, [[0, 1]])
    assert takes_most(graph, [[0]])
    assert not takes_most(graph, [[1, 2]])
    assert not takes_most(graph, [])


def test_pieces_cost_their_borders() -> None:
    names = "abcdefgh"
    steps = " ".join(
        f"{made} = Exp({taken})" for taken, made in zip("x" + names, names, strict=False)
    )
    graph = graph_of(f"g (float[64,64] x) => (float[64,64] h) {{ {steps} }}")

    assert takes_most(graph, [range(7)])
    assert not takes_most(graph, [[0, 1], [2, 3, 4, 5, 6]])


def test_what_lies_in_a_branch_is_work() -> None:
    graph = graph_of("""g (bool c, float[256,256] x) => (float[256,256] y) {
        a = Exp(x)
        y = If(c) <then_branch = t () => (float[256,256] p) { p = MatMul(x, x) },
                   else_branch = e () => (float[256,256] q) { q = Neg(x) }>
        }""")
    exp, branch = (node.index for node in graph.nodes)

    assert not takes_most(graph, [[exp]])
    assert takes_most(graph, [[branch]])


@pytest.mark.parametrize(("share", "takes"), [(3, True), (2, False)])
def test_three_quarters_are_most(share: int, takes: bool) -> None:
    graph = graph_of("""g (float x) => (float a, float b, float c, float d) {
        a = Exp(x) b = Sin(x) c = Cos(x) d = Neg(x)
    }""")

    assert takes_most(graph, [range(share)]) is takes


def test_a_library_that_keeps_refusing_is_asked_no_more() -> None:
    """Each part that is refused leaves a smaller one, which is another try."""
    count = MOST_REFUSALS * 3
    steps = " ".join(
        f"y{number} = Exp({f'y{number - 1}' if number else 'x'})" for number in range(count)
    )
    graph = graph_of(f"g (float x) => (float y{count - 1}) {{ {steps} }}")
    asked: list[ComputeCapability] = []

    def refuse_first(graph: Graph, claim: ComputeCapability) -> ClaimRefusal:
        asked.append(claim)
        made = graph.node(claim.node_indices[0]).outputs[0]
        return ClaimRefusal(makes=(made,), reasons=("no",))

    claims = NativeClaims("X", _Nothing())
    viewer = GraphViewer(graph, topological_order(graph))
    names = iter(map(str, range(count * 2)))

    found = [*claims.subgraphs(viewer, range(count), lambda: next(names), refuse_first)]

    assert found == []
    assert len(asked) == MOST_REFUSALS
    assert f"it has refused {MOST_REFUSALS} parts of the model, and is asked no more" in (
        claims.reasons
    )


class _Nothing(NativeLibrary):
    def compile_model(self, model: NativeModel) -> CompiledModel:
        raise NotImplementedError
