"""Shapes of matrix products, also fused ones, and of Einsum."""

from __future__ import annotations

from collections import Counter

from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.shapes.elementwise_shapes import broadcast_sizes
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.types import ElementType

MICROSOFT = "com.microsoft"


def product_shape(context: ShapeContext, left: Sizes | None, right: Sizes | None) -> Sizes | None:
    """Return the shape of numpy's ``matmul``, which promotes vectors and broadcasts batches."""
    if left is None or right is None:
        return None
    if not left or not right:
        raise ShapeError(f"{context.node}: a matrix product of a scalar")
    inner_left, inner_right = left[-1], right[-2] if len(right) > 1 else right[0]
    if isinstance(inner_left, int) and isinstance(inner_right, int) and inner_left != inner_right:
        raise ShapeError(
            f"{context.node}: rows of {inner_left} elements by columns of {inner_right}"
        )
    outer = broadcast_sizes(context, (left[:-2], right[:-2])) or ()
    rows: tuple[Size, ...] = (left[-2],) if len(left) > 1 else ()
    columns: tuple[Size, ...] = (right[-1],) if len(right) > 1 else ()
    return (*outer, *rows, *columns)


def _product(
    context: ShapeContext, left: int, right: int, element_type: ElementType | None = None
) -> None:
    context.make(0, product_shape(context, context.shape(left), context.shape(right)), element_type)


@infers("MatMul")
def matmul(context: ShapeContext) -> None:
    _product(context, 0, 1)


@infers("MatMulInteger")
def matmul_integer(context: ShapeContext) -> None:
    _product(context, 0, 1, ElementType.INT32)


@infers("QLinearMatMul")
def qlinear_matmul(context: ShapeContext) -> None:
    """Infer from (a, its scale and zero point, b, ...)."""
    _product(context, 0, 3, context.element_type(7))


@infers("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(context: ShapeContext) -> None:
    _product(context, 0, 1, context.element_type(2))


@infers("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(context: ShapeContext) -> None:
    _product(context, 0, 1, context.element_type(0))


@infers("FusedMatMul", domain=MICROSOFT)
def fused_matmul(context: ShapeContext) -> None:
    """Infer with ``transA``/``transB`` swapping the last two axes, ``transBatch*`` the first."""
    element_type = context.element_type(0)
    left = _swapped(
        context.shape(0), context.attribute("transA", 0), context.attribute("transBatchA", 0)
    )
    right = _swapped(
        context.shape(1), context.attribute("transB", 0), context.attribute("transBatchB", 0)
    )
    context.make(0, product_shape(context, left, right), element_type)


def _swapped(shape: Sizes | None, is_transposed: int, is_batch_transposed: int) -> Sizes | None:
    if shape is None or len(shape) < 2:
        return shape
    if is_batch_transposed:  # the first batch axis moves before the last axis
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


@infers("SparseToDenseMatMul", domain=MICROSOFT)
def sparse_to_dense_matmul(context: ShapeContext) -> None:
    """Infer a product of two matrices; ``transA`` and ``transB`` swap their axes."""
    left, right = context.shape(0), context.shape(1)
    left = _swapped(left, context.attribute("transA", 0), 0)
    right = _swapped(right, context.attribute("transB", 0), 0)
    context.make(0, product_shape(context, left, right), context.element_type(1))


@infers("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(context: ShapeContext) -> None:
    """Infer the columns from the attribute N."""
    shape = context.shape(0)
    context.make(
        0,
        None if shape is None else (*shape[:-1], context.attribute("N", 0)),
        context.element_type(0),
    )


@infers("Gemm")
def gemm(context: ShapeContext) -> None:
    _gemm(context, 0, 1)


@infers("FusedGemm", domain=MICROSOFT)
def fused_gemm(context: ShapeContext) -> None:
    _gemm(context, 0, 1, context.element_type(0))


@infers("QGemm", domain=MICROSOFT)
def quantized_gemm(context: ShapeContext) -> None:
    """Infer A (input 0) times B (input 3), in the type of y's zero point (input 8), else float."""
    _gemm(context, 0, 3, context.element_type(8) if context.has(8) else ElementType.FLOAT)


def _gemm(
    context: ShapeContext, left: int, right: int, element_type: ElementType | None = None
) -> None:
    a, b = context.shape(left), context.shape(right)
    if (a is not None and len(a) != 2) or (b is not None and len(b) != 2):
        raise ShapeError(f"{context.node}: two matrices are needed")
    rows = context.new_size() if a is None else a[1 if context.attribute("transA", 0) else 0]
    columns = context.new_size() if b is None else b[0 if context.attribute("transB", 0) else 1]
    context.make(0, (rows, columns), element_type)


@infers("Einsum")
def einsum(context: ShapeContext) -> None:
    """Infer sizes by letter; an ellipsis stands for the other dimensions, broadcast."""
    equation = str(context.attribute("equation", "")).replace(" ", "")
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    shapes = [context.shape(slot) for slot in range(len(context.node.inputs))]
    if len(terms) != len(shapes):
        raise ShapeError(f"{context.node}: {len(terms)} terms for {len(shapes)} inputs")
    if any(shape is None for shape in shapes):
        return
    by_letter: dict[str, Size] = {}
    ellipses: list[Sizes] = []
    for term, shape in polled_parts(list(zip(terms, shapes, strict=True))):
        before, dots, after = term.partition("...")
        sizes = shape or ()
        if len(before) + len(after) > len(sizes) or (not dots and len(before) != len(sizes)):
            raise ShapeError(f"{context.node}: term {term!r} for {len(sizes)} dimensions")
        end = len(sizes) - len(after)
        if dots:
            ellipses.append(sizes[len(before) : end])
        letters = (*zip(before, sizes, strict=False), *zip(after, sizes[end:], strict=True))
        for letter, size in letters:
            (by_letter[letter],) = (
                broadcast_sizes(context, ((by_letter.get(letter, 1),), (size,))) or ()
            )
    if "->" not in equation:
        counts = Counter(inputs.replace(",", "").replace("...", ""))
        once = sorted(letter for letter, count in counts.items() if count == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    rest = broadcast_sizes(context, ellipses) if ellipses else ()
    before, dots, after = output.partition("...")
    if any(letter not in by_letter for letter in before + after):
        raise ShapeError(f"{context.node}: the result has letters that no input has")
    made = (
        *(by_letter[letter] for letter in before),
        *((rest or ()) if dots else ()),
        *(by_letter[letter] for letter in after),
    )
    context.make(0, made)
