"""A provider that nobody named takes most of a model's work, or nothing of it."""

from __future__ import annotations

import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.ep_context.claim_refusals import ClaimRefusal
from ortpkg.runtime.providers.execution_provider import ComputeCapability, GraphViewer
from ortpkg.runtime.providers.model_share import MOST_PARTITIONS, worth_taking
from ortpkg.runtime.providers.native_claims import MOST_REFUSALS, NativeClaims
from ortpkg.runtime.providers.native_library import CompiledModel, NativeLibrary, NativeModel
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

    assert worth_taking(graph, [[0, 1]]) == (0,)
    assert worth_taking(graph, [[1, 2]]) == ()
    assert worth_taking(graph, []) == ()


def test_a_small_piece_goes_and_the_large_one_stays() -> None:
    graph = graph_of(PRODUCT)

    assert worth_taking(graph, [[2], [0, 1]]) == (1,)


def test_work_in_few_nodes_is_not_most() -> None:
    """Of sizes that only a run can tell, the work is a guess."""
    steps = "a = MatMul(x, x) b = Neg(n) c = Neg(b) d = Neg(c) m = Neg(d)"
    graph = graph_of(
        f"g (float[256,256] x, int64[4] n) => (float[256,256] a, int64[4] m) {{ {steps} }}"
    )

    assert worth_taking(graph, [[0]]) == ()
    assert worth_taking(graph, [[0, 1, 2]]) == (0,)


def products(count: int) -> Graph:
    names = [f"y{number}" for number in range(count)]
    steps = " ".join(
        f"{made} = MatMul({taken}, x)" for taken, made in zip(["x", *names], names, strict=False)
    )
    return graph_of(f"g (float[128,128] x) => (float[128,128] y{count - 1}) {{ {steps} }}")


@pytest.mark.parametrize("pieces", [MOST_PARTITIONS, MOST_PARTITIONS + 1])
def test_pieces_are_few(pieces: int) -> None:
    graph = products(pieces)

    kept = worth_taking(graph, [[number] for number in range(pieces)])

    assert kept == (tuple(range(pieces)) if pieces <= MOST_PARTITIONS else ())


def test_pieces_cost_their_borders() -> None:
    """Each step is little more work than a border."""
    graph = graph_of("""g (float[540,540] x) => (float[540,540] d) {
        a = Exp(x) b = Sin(a) c = Cos(b) d = Neg(c)
    }""")

    assert worth_taking(graph, [[0, 1, 2, 3]]) == (0,)
    assert worth_taking(graph, [[0], [1], [2], [3]]) == ()


def test_what_lies_in_a_branch_is_work() -> None:
    graph = graph_of("""g (bool c, float[256,256] x) => (float[256,256] y) {
        a = Exp(x)
        y = If(c) <then_branch = t () => (float[256,256] p) { p = MatMul(x, x) },
                   else_branch = e () => (float[256,256] q) { q = Neg(x) }>
        }""")
    exp, branch = (node.index for node in graph.nodes)

    assert worth_taking(graph, [[exp]]) == ()
    assert worth_taking(graph, [[branch]]) == (0,)


@pytest.mark.parametrize(("share", "kept"), [(3, (0,)), (2, ())])
def test_three_quarters_are_most(share: int, kept: tuple[int, ...]) -> None:
    graph = graph_of("""g (float x) => (float a, float b, float c, float d) {
        a = Exp(x) b = Sin(x) c = Cos(x) d = Neg(x)
    }""")

    assert worth_taking(graph, [range(share)]) == kept


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
