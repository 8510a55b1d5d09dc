"""Products of f32 rows with constants multiply bf16, where the caller asked for that."""

from __future__ import annotations

from ortpkg.compiler.fusion.bf16_rounding import round_products
from tests.compiler.rewritten_programs import assert_becomes, assert_stays, lowered


def test_products_of_the_same_rows_round_them_once() -> None:
    graph = """
        g (float[2, 4] x) => (float[2, 2] y, float[2, 3] z)
        <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8},
         float[4, 3] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
            y = MatMul(x, w)  z = MatMul(x, v) }
        """
    assert_becomes(
        lowered(graph),
        round_products,
        before="""
        y: f32[2, 2] = product
            batch: ()
            m: 2
            n: 2
            k: 4
            left: x[a0, a1]
            right: w[a0, a1]
        z: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x[a0, a1]
            right: v[a0, a1]
        """,
        after="""
        x_as_bf16: bf16[2, 4] = map
            axes: (2, 4)
            value: bf16(x[a0, a1])
            coordinates: (a0, a1)
        y: f32[2, 2] = product
            batch: ()
            m: 2
            n: 2
            k: 4
            left: x_as_bf16[a0, a1]
            right: bf16(w[a0, a1])
        z: f32[2, 3] = product
            batch: ()
            m: 2
            n: 3
            k: 4
            left: x_as_bf16[a0, a1]
            right: bf16(v[a0, a1])
        """,
        rtol=0.1,
    )


def test_a_product_of_two_tensors_that_are_not_known_stays() -> None:
    graph = """
        g (float[2, 4] x, float[4, 2] w) => (float[2, 2] y) { y = MatMul(x, w) }
        """
    assert_stays(lowered(graph), round_products)


def test_a_product_with_an_odd_number_of_terms_stays() -> None:
    graph = """
        g (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
            y = MatMul(x, w) }
        """
    assert_stays(lowered(graph), round_products)


def test_a_product_with_one_column_stays() -> None:
    graph = """
        g (float[2, 4] x) => (float[2, 1] y) <float[4, 1] w = {1, 2, 3, 4}> { y = MatMul(x, w) }
        """
    assert_stays(lowered(graph), round_products)
