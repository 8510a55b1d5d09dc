"""Maps move into what reads them, where that costs less than their memory."""

from __future__ import annotations

from ortpkg.compiler.fusion.inlining import inline_maps
from ortpkg.compiler.tensor_ir.elements import parts_of
from ortpkg.compiler.tensor_ir.tensor_program import elements_of, reads_of
from tests.compiler.rewritten_programs import assert_becomes, assert_stays, lowered


def test_a_product_reads_through_a_move() -> None:
    graph = """
        g (float[2, 3] x, float[2, 4] w) => (float[3, 4] y) {
            t = Transpose<perm = [1, 0]>(x)  y = MatMul(t, w) }
        """
    assert_becomes(
        lowered(graph),
        inline_maps,
        before="""
        t: f32[3, 2] = map
            axes: (3, 2)
            value: x[a1, a0]
            coordinates: (a0, a1)
        y: f32[3, 4] = product
            batch: ()
            m: 3
            n: 4
            k: 2
            left: t[a0, a1]
            right: w[a0, a1]
        """,
        after="""
        t: f32[3, 2] = map
            axes: (3, 2)
            value: x[a1, a0]
            coordinates: (a0, a1)
        y: f32[3, 4] = product
            batch: ()
            m: 3
            n: 4
            k: 2
            left: x[a1, a0]
            right: w[a0, a1]
        """,
    )


def test_a_chain_of_maps_is_one_expression() -> None:
    graph = """
        g (float[2, 3] x, float[3] b) => (float[2, 3] y) {
            s = Add(x, b)  r = Relu(s)  y = Mul(r, x) }
        """
    assert_becomes(
        lowered(graph),
        inline_maps,
        before="""
        s: f32[2, 3] = map
            axes: (2, 3)
            value: (x[a0, a1] + b[a1])
            coordinates: (a0, a1)
        r: f32[2, 3] = map
            axes: (2, 3)
            value: max(s[a0, a1], 0)
            coordinates: (a0, a1)
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (r[a0, a1] * x[a0, a1])
            coordinates: (a0, a1)
        """,
        after="""
        s: f32[2, 3] = map
            axes: (2, 3)
            value: (x[a0, a1] + b[a1])
            coordinates: (a0, a1)
        r: f32[2, 3] = map
            axes: (2, 3)
            value: max((x[a0, a1] + b[a1]), 0)
            coordinates: (a0, a1)
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (max((x[a0, a1] + b[a1]), 0) * x[a0, a1])
            coordinates: (a0, a1)
        """,
    )


def test_a_reduction_computes_what_it_alone_reads() -> None:
    graph = """
        g (float[2, 3] x) => (float[2] y) <int64[1] last = {1}> {
            e = Exp(x)  y = ReduceSum<keepdims = 0>(e, last) }
        """
    assert_becomes(
        lowered(graph),
        inline_maps,
        before="""
        e: f32[2, 3] = map
            axes: (2, 3)
            value: exp(x[a0, a1])
            coordinates: (a0, a1)
        ReduceSum_1.reduced: f32[2] = reduce
            axes: (2)
            reduced: (3)
            combiner: sum
            value: e[a0, a1]
        y: f32[2] = alias
            source: ReduceSum_1.reduced: f32[2]
        """,
        after="""
        e: f32[2, 3] = map
            axes: (2, 3)
            value: exp(x[a0, a1])
            coordinates: (a0, a1)
        ReduceSum_1.reduced: f32[2] = reduce
            axes: (2)
            reduced: (3)
            combiner: sum
            value: exp(x[a0, a1])
        y: f32[2] = alias
            source: ReduceSum_1.reduced: f32[2]
        """,
    )


def test_cheap_work_is_done_again_for_each_reader() -> None:
    graph = """
        g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { n = Neg(x)  y = Exp(n)  z = Abs(n) }
        """
    assert_becomes(
        lowered(graph),
        inline_maps,
        before="""
        n: f32[2, 3] = map
            axes: (2, 3)
            value: neg(x[a0, a1])
            coordinates: (a0, a1)
        y: f32[2, 3] = map
            axes: (2, 3)
            value: exp(n[a0, a1])
            coordinates: (a0, a1)
        z: f32[2, 3] = map
            axes: (2, 3)
            value: abs(n[a0, a1])
            coordinates: (a0, a1)
        """,
        after="""
        n: f32[2, 3] = map
            axes: (2, 3)
            value: neg(x[a0, a1])
            coordinates: (a0, a1)
        y: f32[2, 3] = map
            axes: (2, 3)
            value: exp(neg(x[a0, a1]))
            coordinates: (a0, a1)
        z: f32[2, 3] = map
            axes: (2, 3)
            value: abs(neg(x[a0, a1]))
            coordinates: (a0, a1)
        """,
    )


def test_parts_of_a_joined_tensor_are_written_where_they_belong() -> None:
    graph = """
        g (float[4] x, float[4] z) => (float[6] y) <int64[1] first = {1}, int64[1] end = {3}> {
            s = Slice(x, first, end)  n = Neg(z)  y = Concat<axis = 0>(s, n) }
        """
    assert_becomes(
        lowered(graph),
        inline_maps,
        before="""
        s: f32[2] = map
            axes: (2)
            value: x[a0 + 1]
            coordinates: (a0)
        n: f32[4] = map
            axes: (4)
            value: neg(z[a0])
            coordinates: (a0)
        y: f32[6] = map
            axes: (2)
            value: s[a0]
            coordinates: (a0)
        y: f32[6] = map
            axes: (4)
            value: n[a0]
            coordinates: (a0 + 2)
        """,
        after="""
        s: f32[2] = map
            axes: (2)
            value: x[a0 + 1]
            coordinates: (a0)
        n: f32[4] = map
            axes: (4)
            value: neg(z[a0])
            coordinates: (a0)
        y: f32[6] = map
            axes: (2)
            value: x[a0 + 1]
            coordinates: (a0)
        y: f32[6] = map
            axes: (4)
            value: neg(z[a0])
            coordinates: (a0 + 2)
        """,
    )


def test_costly_work_is_not_done_again_for_each_reader() -> None:
    graph = """
        g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { e = Exp(x)  y = Neg(e)  z = Abs(e) }
        """
    assert_stays(lowered(graph), inline_maps)


def test_costly_work_is_not_done_again_along_an_axis_that_it_lacks() -> None:
    graph = """
        g (float[3] x, float[2, 3] b) => (float[2, 3] y) { e = Exp(x)  y = Add(e, b) }
        """
    assert_stays(lowered(graph), inline_maps)


def test_a_product_does_not_compute_its_operands() -> None:
    graph = """
        g (float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { e = Relu(x)  y = MatMul(e, w) }
        """
    assert_stays(lowered(graph), inline_maps)


def test_a_product_does_not_gather_its_operands() -> None:
    graph = """
        g (float[5, 3] x, int64[2] i, float[3, 4] w) => (float[2, 4] y) {
            e = Gather(x, i)  y = MatMul(e, w) }
        """
    assert_stays(lowered(graph), inline_maps)


def test_an_expression_of_many_parts_is_cut() -> None:
    steps = "  ".join(f"x{step + 1} = Add(x{step}, b)" for step in range(60))
    program = inline_maps(lowered(f"g (float[3] x0, float[3] b) => (float[3] x60) {{ {steps} }}"))
    parts = [
        sum(1 for _ in parts_of(each)) for op in program.operations for each in elements_of(op)
    ]
    assert 48 < max(parts) <= 96


def test_an_expression_reads_at_most_eight_tensors() -> None:
    names = [f"b{number}" for number in range(12)]
    inputs = ", ".join(f"float[3] {name}" for name in names)
    steps = "  ".join(f"x{step + 1} = Add(x{step}, {name})" for step, name in enumerate(names))
    program = inline_maps(lowered(f"g (float[3] x0, {inputs}) => (float[3] x12) {{ {steps} }}"))
    assert 4 < max(len(reads_of(operation)) for operation in program.operations) <= 8
