"""Attention that is never in memory as a whole is what numpy makes of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from math import inf

import numpy as np
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.attention.attention_schedule import schedule_attention
from ortpkg.compiler.schedules.attention.attention_tiling import attention_tiling
from ortpkg.compiler.schedules.machine_model import MachineModel
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
from ortpkg.graph.shapes.expressions import Size, evaluate, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NATIVE_TARGETS, V2, V3, V4, NativeTarget
from tests.compiler.reference_elements import DTYPES, reference_value
from tests.compiler.scheduled_kernels import run_scheduled

_MADE = Made(Scalar.F32)
_BATCH, _HEAD, _QUERY, _KEY = range(4)


def _number(number: float) -> Number:
    return Number(number, Scalar.F32)


@dataclass
class _Case:
    """An attention over tensors that lie as (batch, place, head, width)."""

    batch: int
    heads: int
    queries: Size
    keys: Size
    width: int
    value_width: int
    score: Element | None = None
    scalar: Scalar = Scalar.F32
    given: dict[Tensor, Array] = field(default_factory=dict)

    def attention(self) -> Attention:
        self.query = self._tensor("query", self.queries, self.width)
        self.key = self._tensor("key", self.keys, self.width)
        self.value = self._tensor("value", self.keys, self.value_width)
        self.output = self._tensor("output", self.queries, self.value_width)
        return Attention(
            output=self.output,
            batch=(self.batch, self.heads),
            queries=self.queries,
            keys=self.keys,
            width=self.width,
            value_width=self.value_width,
            query=self._read(self.query),
            key=self._read(self.key),
            value=self._read(self.value),
            score=self.score,
            coordinates=(along(0), along(2), along(1), along(3)),
        )

    def _tensor(self, name: str, coordinates: Size, width: int) -> Tensor:
        return Tensor(name, self.scalar, (self.batch, coordinates, self.heads, width))

    def _read(self, tensor: Tensor) -> Element:
        read = Read(tensor, (along(0), along(2), along(1), along(3)))
        return read if self.scalar is Scalar.F32 else Convert(read, Scalar.F32)

    def check(self, target: NativeTarget, **symbols: int) -> None:
        """Runs the attention, and compares it with numpy's in f64."""
        attention = self.attention()
        arrays = {
            tensor: _floats(*(evaluate(each, symbols) for each in tensor.shape), seed=seed)
            for seed, tensor in enumerate((self.query, self.key, self.value))
        }
        arrays = {
            each: self.given.get(each, array.astype(DTYPES[each.scalar]))
            for each, array in (arrays | self.given).items()
        }
        shape = [evaluate(each, symbols) for each in self.output.shape]
        arrays[self.output] = np.full(shape, -77, DTYPES[self.scalar])
        run_scheduled(schedule_attention(attention, target.model, ()), arrays, target, symbols)
        expected = _expected(attention, arrays, symbols)
        made = arrays[self.output].astype(np.float64)
        close = 1e-5 if self.scalar is Scalar.F32 else 2e-3
        np.testing.assert_allclose(made, expected, rtol=close, atol=close)


def _floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def _expected(attention: Attention, arrays: dict[Tensor, Array], symbols: dict[str, int]) -> Array:
    """The output as (batch, query, head, value width)."""
    batch = [evaluate(each, symbols) for each in attention.batch]
    queries, keys, width, columns = (
        evaluate(each, symbols)
        for each in (attention.queries, attention.keys, attention.width, attention.value_width)
    )

    def side(element: Element, *rows: int) -> Array:
        axes = [*batch, *rows]
        return reference_value(element, axes, arrays, symbols=symbols).astype(np.float64)

    query, key = side(attention.query, queries, width), side(attention.key, keys, width)
    scores = (query @ np.swapaxes(key, -1, -2)).astype(np.float32)
    if attention.score is not None:
        scores = reference_value(
            attention.score, scores.shape, arrays, made=scores, symbols=symbols
        )
    with np.errstate(all="ignore"):
        largest = np.max(scores, axis=-1, keepdims=True, initial=-inf)
        weights = np.exp(scores.astype(np.float64) - largest)
        weights /= weights.sum(axis=-1, keepdims=True)
    return np.swapaxes(weights @ side(attention.value, keys, columns), 1, 2)


_SIZES = [(7, 5, 16, 16), (1, 1, 1, 1), (64, 64, 64, 64), (4, 300, 20, 33), (130, 70, 8, 100)]
_MORE_SIZES = [(50, 197, 64, 64), (1, 523, 64, 64), (3, 17, 21, 7), (2, 600, 80, 130)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("target", "sizes"),
    [(target, sizes) for target in (V4, V3) for sizes in _SIZES]
    + [(target, sizes) for target in (V4, V2) for sizes in _MORE_SIZES],
    ids=str,
)
def test_attention_of_known_sizes(target: NativeTarget, sizes: tuple[int, int, int, int]) -> None:
    scaled = Call(Function.MUL, (_MADE, _number(0.25)))
    _Case(2, 3, *sizes, score=scaled).check(target)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_queries_and_keys_may_be_open(target: NativeTarget) -> None:
    for queries, keys in [(1, 1), (1, 40), (3, 300), (4, 9), (150, 290), (0, 5), (33, 0), (1, 0)]:
        case = _Case(1, 2, symbol("q"), symbol("k"), 24, 40)
        if keys:
            case.check(target, q=queries, k=keys)
        else:
            _check_without_keys(case, target, queries)


def _check_without_keys(case: _Case, target: NativeTarget, queries: int) -> None:
    attention = case.attention()
    shapes = {"q": queries, "k": 0}
    arrays = {
        each: np.full([evaluate(size, shapes) for size in each.shape], 3, np.float32)
        for each in (case.query, case.key, case.value, case.output)
    }
    run_scheduled(schedule_attention(attention, target.model, ()), arrays, target, shapes)
    assert not arrays[case.output].any(), "the sum of nothing"


@pytest.mark.parametrize("target", [V4, V3], ids=str)
@pytest.mark.parametrize("queries", [1, 37])
def test_halves_are_widened(target: NativeTarget, queries: int) -> None:
    _Case(1, 2, queries, 150, 40, 24, scalar=Scalar.F16).check(target)


@pytest.mark.parametrize("queries", [2, 40])
def test_mask_is_added(queries: int) -> None:
    mask = Tensor("mask", Scalar.F32, (2, 1, 1, 90))
    hidden = np.where(np.arange(180).reshape(2, 1, 1, 90) % 7 < 3, -inf, 0).astype(np.float32)
    read = Read(mask, (along(_BATCH), Coordinate(), Coordinate(), along(_KEY)))
    score = Call(Function.ADD, (Call(Function.DIV, (_MADE, _number(4.0))), read))
    _Case(2, 3, queries, 90, 16, 16, score=score, given={mask: hidden}).check(V4)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("queries", [2, 40])
def test_mask_is_a_choice(target: NativeTarget, queries: int) -> None:
    """Most scores are hidden, whole blocks of keys among them; none of the first one is seen."""
    mask = Tensor("seen", Scalar.BOOL, (1, 1, queries, 600))
    seen = np.random.default_rng(5).random((1, 1, queries, 600)) < 0.05
    seen[..., :300], seen[..., -1] = False, True
    read = Read(mask, (Coordinate(), Coordinate(), along(_QUERY), along(_KEY)))
    score = Call(Function.SELECT, (read, _MADE, _number(-inf)))
    _Case(1, 2, queries, 600, 16, 16, score=score, given={mask: seen}).check(target)


@pytest.mark.parametrize("queries", [3, 70])
def test_mask_follows_from_positions(queries: int) -> None:
    is_later = Call(Function.GT, (Position(_KEY), Position(_QUERY)))
    score = Call(Function.SELECT, (is_later, _number(-inf), _MADE))
    _Case(1, 3, symbol("q"), symbol("k"), 16, 16, score=score).check(V4, q=queries, k=queries)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("queries", [2, 20])
def test_hidden_rows_nan_and_infinities_are_those_of_numpy(
    target: NativeTarget, queries: int
) -> None:
    bias = Tensor("bias", Scalar.F32, (queries, 300))
    added = np.zeros((queries, 300), np.float32)
    added[0] = -inf
    added[1, 5], added[-1, 299] = np.nan, inf
    score = Call(Function.ADD, (_MADE, Read(bias, (along(_QUERY), along(_KEY)))))
    _Case(1, 1, queries, 300, 16, 16, score=score, given={bias: added}).check(target)


def test_large_scores_do_not_overflow() -> None:
    score = Call(Function.MUL, (_MADE, _number(1e4)))
    _Case(1, 2, 20, 300, 16, 16, score=score).check(V3)


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("queries", [1, 19])
def test_keys_may_lie_side_by_side(target: NativeTarget, queries: int) -> None:
    """As a model keeps them that transposes keys once: (head, width, key)."""
    heads, keys, width = 2, 75, 20
    query = Tensor("query", Scalar.F32, (heads, queries, width))
    key = Tensor("key", Scalar.F32, (heads, width, keys))
    value = Tensor("value", Scalar.F32, (heads, keys, width))
    output = Tensor("output", Scalar.F32, (heads, width, queries))
    attention = Attention(
        output=output,
        batch=(heads,),
        queries=queries,
        keys=keys,
        width=width,
        value_width=width,
        query=Read(query, (along(0), along(1), along(2))),
        key=Read(key, (along(0), along(2), along(1))),
        value=Read(value, (along(0), along(1), along(2))),
        score=None,
        coordinates=(along(0), along(2), along(1)),
    )
    arrays = {
        each: _floats(*(size for size in each.shape if isinstance(size, int)), seed=seed)
        for seed, each in enumerate((query, key, value, output))
    }
    run_scheduled(schedule_attention(attention, target.model, ()), arrays, target)
    weights = np.exp(arrays[query] @ arrays[key])
    weights /= weights.sum(axis=-1, keepdims=True)
    expected = np.swapaxes(weights @ arrays[value], 1, 2)
    np.testing.assert_allclose(arrays[output], expected, rtol=1e-5, atol=1e-5)


def test_sides_may_be_computed_and_heads_shared() -> None:
    """All heads have the keys and values of one; queries are scaled on the way."""
    query = Tensor("query", Scalar.F32, (3, 30, 16))
    shared = Tensor("shared", Scalar.F32, (40, 16))
    output = Tensor("output", Scalar.F32, (3, 30, 16))
    attention = Attention(
        output=output,
        batch=(3,),
        queries=30,
        keys=40,
        width=16,
        value_width=16,
        query=Call(Function.MUL, (Read(query, (along(0), along(1), along(2))), _number(0.5))),
        key=Read(shared, (along(1), along(2))),
        value=Call(Function.NEG, (Read(shared, (along(1), along(2))),)),
        score=None,
        coordinates=(along(0), along(1), along(2)),
    )
    arrays = {query: _floats(3, 30, 16), shared: _floats(40, 16), output: _floats(3, 30, 16)}
    run_scheduled(schedule_attention(attention, V3.model, ()), arrays, V3)
    weights = np.exp(arrays[query] / 2 @ arrays[shared].T)
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(arrays[output], -weights @ arrays[shared], rtol=1e-5, atol=1e-5)


def test_widths_that_are_not_known_are_refused() -> None:
    case = _Case(1, 1, 4, 4, 8, 8)
    attention = case.attention()
    unknown = Attention(
        output=attention.output, batch=attention.batch, queries=4, keys=4, width=symbol("w"),
        value_width=8, query=attention.query, key=attention.key, value=attention.value,
        score=None, coordinates=attention.coordinates,
    )  # fmt: skip
    with pytest.raises(TypeError, match="heads of the widths w and 8 are not scheduled"):
        schedule_attention(unknown, V3.model, ())


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("width", [16, 64, 128, 512])
@pytest.mark.parametrize("queries", [1, 128, 1500, symbol("q")], ids=str)
def test_blocks_fit_the_caches(target: NativeTarget, width: int, queries: Size) -> None:
    attention = _Case(1, 12, queries, symbol("k"), width, width).attention()
    (scheduled,) = schedule_attention(attention, target.model, ())
    tiling = attention_tiling(attention, target.model)
    assert tiling.group % tiling.score_rows == tiling.group % tiling.value_rows == 0
    assert tiling.key_block % tiling.key_panel == 0
    assert tiling.query_rows >= tiling.query_block
    assert scheduled.kernel.scratch_nbytes <= 5 * target.model.l2_nbytes


def test_tiles_are_shared_by_threads() -> None:
    (scheduled,) = schedule_attention(_Case(1, 2, 1024, 1024, 64, 64).attention(), V4.model, ())
    assert isinstance(scheduled.tile_count, int)
    assert scheduled.tile_count >= 16


@pytest.mark.parametrize("queries", [1, 64, symbol("q")], ids=str)
def test_other_targets_are_compiled_for(queries: Size) -> None:
    model = MachineModel(vector_nbytes=16, register_count=32)
    scaled = Call(Function.MUL, (_MADE, _number(0.125)))
    attention = _Case(1, 12, queries, 64, 64, 64, score=scaled).attention()
    (scheduled,) = schedule_attention(attention, model, ())
    text = kernel_function(scheduled.kernel, "kernel", EmissionOptions())
    compiler = ObjectCompiler(
        triple="aarch64-unknown-linux-gnu", cpu="generic", features=("+reserve-x18",)
    )
    assert compiler.link(text).functions.keys() == {"kernel"}
    assert "fmla" in compiler.assembly(text)


@pytest.mark.parametrize("target", [V4, V3], ids=str)
def test_inner_loops_keep_their_sums_in_registers(target: NativeTarget) -> None:
    attention = _Case(1, 12, 128, 128, 64, 64).attention()
    (scheduled,) = schedule_attention(attention, target.model, ())
    text = kernel_function(scheduled.kernel, "kernel", EmissionOptions())
    compiler = ObjectCompiler(
        triple="x86_64-unknown-linux-gnu", cpu=target.cpu, features=target.features
    )
    loops = [
        list(takewhile(lambda line: not line.startswith("\tj"), block.splitlines()))
        for block in compiler.assembly(text).split("\n.L")
    ]
    tiling = attention_tiling(attention, target.model)
    sizes = [tiling.score_rows * tiling.score_vectors, tiling.value_rows * tiling.value_vectors]
    inner = [
        loop
        for loop in loops
        if sum("vfmadd" in line for line in loop) in sizes
        and sum("vbroadcastss" in line for line in loop) >= tiling.score_rows
    ]
    assert len(inner) == 2, "scores and values"
    assert all("%rsp" not in line for loop in inner for line in loop)
