"""Elementwise work behind products, convolutions, pools and reductions becomes their epilogue."""

from __future__ import annotations

from ortpkg.compiler.fusion.alias_views import read_through_aliases
from ortpkg.compiler.fusion.epilogues import fuse_epilogues
from ortpkg.compiler.fusion.unused_operations import remove_unused
from ortpkg.compiler.tensor_ir.elements import parts_of
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from tests.compiler.rewritten_programs import assert_becomes, assert_stays, lowered


def _without_views(program: TensorProgram) -> TensorProgram:
    return remove_unused(read_through_aliases(program))


def test_bias_activation_and_residual_stand_behind_a_product() -> None:
    graph = """
        g (float[2, 4] x, float[2, 3] r, float[4, 3] w, float[3] b) => (float[2, 3] y) {
            p = MatMul(x, w)  s = Add(p, b)  a = Relu(s)  y = Add(a, r) }
        """
    assert_becomes(
        lowered(graph),
        fuse_epilogues,
        before="""
        p: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
        s: f32[2, 3] = map
            axes: (2, 3)
            value: (p[a0, a1] + b[a1])
            coordinates: (a0, a1)
        a: f32[2, 3] = map
            axes: (2, 3)
            value: max(s[a0, a1], 0)
            coordinates: (a0, a1)
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (a[a0, a1] + r[a0, a1])
            coordinates: (a0, a1)
        """,
        after="""
        y: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
            epilogue: (max((made + b[a1]), 0) + r[a0, a1])
        """,
    )


def test_residual_and_activation_stand_behind_a_convolution() -> None:
    graph = """
        g (float[1, 2, 5, 5] x, float[3, 2, 3, 3] w, float[1, 3, 3, 3] r)
        => (float[1, 3, 3, 3] y) {
            c = Conv(x, w)  d = Add(c, r)  y = Relu(d) }
        """
    assert_becomes(
        lowered(graph),
        fuse_epilogues,
        before="""
        c: f32[1, 3, 3, 3] = convolution
            source: x: f32[1, 2, 5, 5]
            weights: w: f32[3, 2, 3, 3]
            groups: 1
            window: kernel (3, 3), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
        d: f32[1, 3, 3, 3] = map
            axes: (1, 3, 3, 3)
            value: (c[0, a1, a2, a3] + r[0, a1, a2, a3])
            coordinates: (a0, a1, a2, a3)
        y: f32[1, 3, 3, 3] = map
            axes: (1, 3, 3, 3)
            value: max(d[0, a1, a2, a3], 0)
            coordinates: (a0, a1, a2, a3)
        """,
        after="""
        y: f32[1, 3, 3, 3] = convolution
            source: x: f32[1, 2, 5, 5]
            weights: w: f32[3, 2, 3, 3]
            groups: 1
            window: kernel (3, 3), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            epilogue: max((made + r[0, a1, a2, a3]), 0)
        """,
    )


def test_what_follows_a_pool_stands_in_it() -> None:
    graph = """
        g (float[1, 2, 5, 5] x) => (float[1, 2, 3, 3] y) {
            p = MaxPool<kernel_shape = [3, 3]>(x)  y = Neg(p) }
        """
    assert_becomes(
        lowered(graph),
        fuse_epilogues,
        before="""
        p: f32[1, 2, 3, 3] = pool
            source: x: f32[1, 2, 5, 5]
            function: max
            window: kernel (3, 3), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
        y: f32[1, 2, 3, 3] = map
            axes: (1, 2, 3, 3)
            value: neg(p[0, a1, a2, a3])
            coordinates: (a0, a1, a2, a3)
        """,
        after="""
        y: f32[1, 2, 3, 3] = pool
            source: x: f32[1, 2, 5, 5]
            function: max
            window: kernel (3, 3), strides (1, 1), dilations (1, 1), before (0, 0), after (0, 0)
            epilogue: neg(made)
        """,
    )


def test_what_follows_a_softmax_stands_in_it() -> None:
    graph = """
        g (float[2, 5] x, float two) => (float[2, 5] y) { p = Softmax(x)  y = Mul(p, two) }
        """
    assert_becomes(
        lowered(graph),
        fuse_epilogues,
        before="""
        p: f32[2, 5] = row_normalize
            function: softmax
            axes: (2, 5)
            value: x[a0, a1]
        y: f32[2, 5] = map
            axes: (2, 5)
            value: (p[a0, a1] * two[])
            coordinates: (a0, a1)
        """,
        after="""
        y: f32[2, 5] = row_normalize
            function: softmax
            axes: (2, 5)
            value: x[a0, a1]
            epilogue: (made * two[])
        """,
    )


def test_a_map_of_another_shape_leaves_an_alias_behind() -> None:
    graph = """
        g (float[2, 5] x) => (float[2, 1] y) <int64[1] last = {1}> {
            s = ReduceSum(x, last)  n = Neg(s)  y = Abs(n) }
        """
    assert_becomes(
        _without_views(lowered(graph)),
        fuse_epilogues,
        before="""
        ReduceSum_0.reduced: f32[2] = reduce
            axes: (2)
            reduced: (5)
            combiner: sum
            value: x[a0, a1]
        n: f32[2, 1] = map
            axes: (2, 1)
            value: neg(ReduceSum_0.reduced[a0])
            coordinates: (a0, a1)
        y: f32[2, 1] = map
            axes: (2, 1)
            value: abs(n[a0, 0])
            coordinates: (a0, a1)
        """,
        after="""
        n: f32[2] = reduce
            axes: (2)
            reduced: (5)
            combiner: sum
            value: x[a0, a1]
            epilogue: neg(made)
        n#2: f32[2, 1] = alias
            source: n: f32[2]
        y: f32[2, 1] = map
            axes: (2, 1)
            value: abs(n#2[a0, 0])
            coordinates: (a0, a1)
        """,
    )


def test_the_first_of_two_products_takes_their_sum() -> None:
    graph = """
        g (float[2, 4] x, float[4, 3] w, float[2, 4] u, float[4, 3] v) => (float[2, 3] y) {
            p = MatMul(x, w)  q = MatMul(u, v)  y = Add(p, q) }
        """
    assert_becomes(
        lowered(graph),
        fuse_epilogues,
        before="""
        p: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
        q: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: u[a0, a1]
            right: v[a0, a1]
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (p[a0, a1] + q[a0, a1])
            coordinates: (a0, a1)
        """,
        after="""
        q: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: u[a0, a1]
            right: v[a0, a1]
        y: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
            epilogue: (made + q[a0, a1])
        """,
    )


def test_what_two_maps_read_keeps_its_memory() -> None:
    graph = """
        g (float[2, 4] x, float[4, 3] w) => (float[2, 3] y, float[2, 3] z) {
            p = MatMul(x, w)  y = Relu(p)  z = Neg(p) }
        """
    assert_stays(lowered(graph), fuse_epilogues)


def test_what_is_an_output_keeps_its_memory() -> None:
    graph = """
        g (float[2, 4] x, float[4, 3] w) => (float[2, 3] y, float[2, 3] p) {
            p = MatMul(x, w)  y = Relu(p) }
        """
    assert_stays(lowered(graph), fuse_epilogues)


def test_what_is_read_at_other_places_keeps_its_memory() -> None:
    graph = """
        g (float[3, 4] x, float[4, 3] w) => (float[3, 3] y) {
            p = MatMul(x, w)  y = Transpose<perm = [1, 0]>(p) }
        """
    assert_stays(lowered(graph), fuse_epilogues)


def test_what_is_read_more_than_once_each_keeps_its_memory() -> None:
    graph = """
        g (float[2, 4] x, float[4, 3] w, float[5, 2, 3] r) => (float[5, 2, 3] y) {
            p = MatMul(x, w)  y = Add(p, r) }
        """
    assert_stays(lowered(graph), fuse_epilogues)


def test_an_epilogue_of_many_parts_is_cut() -> None:
    steps = "  ".join(f"p{step + 1} = Add(p{step}, b)" for step in range(60))
    graph = "g (float[2, 4] x, float[4, 3] w, float[3] b) => (float[2, 3] p60)"
    graph += f" {{ p0 = MatMul(x, w)  {steps} }}"
    product, *maps = fuse_epilogues(lowered(graph)).operations
    assert isinstance(product, Product)
    assert product.epilogue is not None
    assert 90 < sum(1 for _ in parts_of(product.epilogue)) <= 96
    assert maps, "the rest stays behind"
