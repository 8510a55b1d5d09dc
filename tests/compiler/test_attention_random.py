"""Attentions of random sizes, layouts, masks and kinds are what numpy makes of them."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.attention.attention_schedule import schedule_attention
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Attention
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NATIVE_TARGETS
from tests.compiler.reference_elements import DTYPES, reference_value
from tests.compiler.scheduled_kernels import run_scheduled

_LAYOUTS = [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 3, 2)]


def _side(
    random_: random.Random, name: str, sizes: tuple[Size, ...], numbers: tuple[int, ...]
) -> tuple[Tensor, Element, tuple[int, ...]]:
    """A tensor that holds (batch, head, place, width) in some order, and its element there."""
    order = random_.choice(_LAYOUTS)
    scalar = random_.choice([Scalar.F32, Scalar.F32, Scalar.F16])
    tensor = Tensor(name, scalar, tuple(sizes[axis] for axis in order))
    read: Element = Read(tensor, tuple(along(axis) for axis in order))
    element = read if scalar is Scalar.F32 else Convert(read, Scalar.F32)
    return tensor, element, tuple(numbers[axis] for axis in order)


def _score(random_: random.Random, mask: Tensor) -> Element | None:
    """Scaled, and hidden in one of the ways that models have."""
    made: Element = Made(Scalar.F32)
    hidden = Number(random_.choice([-inf, -1e4]), Scalar.F32)
    scaled = Call(Function.MUL, (made, Number(0.3, Scalar.F32)))
    is_seen = Read(mask, (Coordinate(), along(3)))
    is_later = Call(Function.GT, (Position(3), Position(2)))
    return random_.choice([
        None,
        scaled,
        Call(Function.SELECT, (is_seen, scaled, hidden)),
        Call(Function.SELECT, (is_later, hidden, scaled)),
    ])  # fmt: skip


def _expected(attention: Attention, arrays: dict[Tensor, Array], sizes: dict[str, int]) -> Array:
    batch, (q, k, w, v) = (sizes["b"], sizes["h"]), (sizes[each] for each in "qkwv")

    def side(element: Element, rows: int, width: int) -> Array:
        axes = (*batch, rows, width)
        return reference_value(element, axes, arrays, symbols=sizes).astype(np.float64)

    keys = np.swapaxes(side(attention.key, k, w), -1, -2)
    scores = (side(attention.query, q, w) @ keys).astype(np.float32)
    if attention.score is not None:
        scores = reference_value(attention.score, scores.shape, arrays, made=scores, symbols=sizes)
    with np.errstate(all="ignore"):
        weights = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
    made: Array = weights @ side(attention.value, k, v)
    return made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_random_attention(seed: int) -> None:
    random_ = random.Random(seed)
    most = {"b": 3, "h": 4, "q": random_.choice([3, 20, 300]), "k": random_.choice([20, 700])}
    numbers = {name: random_.randint(1, size) for name, size in most.items()}
    numbers |= {"w": random_.choice([1, 8, 24, 64]), "v": random_.choice([5, 16, 64, 90])}
    sizes: dict[str, Size] = dict(numbers)
    for name in "bhqk":
        if random_.random() < 0.4:
            sizes[name] = symbol(name)
    rows = {"query": "bhqw", "key": "bhkw", "value": "bhkv", "output": "bhqv"}
    made = {
        name: _side(
            random_, name, tuple(sizes[each] for each in axes),
            tuple(numbers[each] for each in axes),
        )
        for name, axes in rows.items()
    }  # fmt: skip
    mask = Tensor("seen", Scalar.BOOL, (1, sizes["k"]))
    generator = np.random.default_rng(seed)
    arrays: dict[Tensor, Array] = {
        tensor: generator.standard_normal(shape).astype(DTYPES[tensor.scalar])
        for tensor, _, shape in made.values()
    }
    arrays[mask] = generator.random((1, numbers["k"])) < random_.choice([0.05, 0.9])
    output, place, _ = made["output"]
    read = place.operand if isinstance(place, Convert) else place
    assert isinstance(read, Read)
    attention = Attention(
        output=output,
        batch=(sizes["b"], sizes["h"]),
        queries=sizes["q"],
        keys=sizes["k"],
        width=sizes["w"],
        value_width=sizes["v"],
        query=made["query"][1],
        key=made["key"][1],
        value=made["value"][1],
        score=_score(random_, mask),
        coordinates=read.coordinates,
    )
    target = random_.choice(NATIVE_TARGETS)
    run_scheduled(schedule_attention(attention, target.model, ()), arrays, target, numbers)
    order = [each.terms[0][0] for each in read.coordinates]
    expected = np.transpose(_expected(attention, arrays, numbers), order)
    close = 2e-5 if output.scalar is Scalar.F32 else 2e-3
    np.testing.assert_allclose(arrays[output].astype(np.float64), expected, rtol=close, atol=close)
