"""The steps of recurrent layers are what numpy says, for every cell, size, direction and target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.recurrences.recurrence import schedule_recurrence
from ortpkg.compiler.schedules.recurrences.recurrence_tiling import recurrence_tiling
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Cell, Recurrence
from ortpkg.compiler.tensor_ir.tensor_program import reads_of, writes_of
from ortpkg.graph.shapes.expressions import Size, evaluate, symbol
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NATIVE_TARGETS, V2, V3, V4, NativeTarget
from tests.compiler.reference_elements import DTYPES
from tests.compiler.reference_program import run_operation
from tests.compiler.scheduled_kernels import run_scheduled

_MADE = Made(Scalar.F32)
_SIGMOID, _TANH = (Call(each, (_MADE,)) for each in (Function.SIGMOID, Function.TANH))
_FORWARD, _REVERSE, _BOTH = (False,), (True,), (False, True)
#: Steps, sequences, units.
_SIZES = [(3, 1, 32), (4, 1, 5), (5, 13, 17), (0, 2, 8), (3, 0, 1)]


def _layer(
    cell: Cell,
    sizes: tuple[Size, Size, int],
    backward: tuple[bool, ...] = _FORWARD,
    scalar: Scalar = Scalar.F32,
) -> Recurrence:
    """A layer with all states, without lengths and peepholes."""
    steps, batch, hidden = sizes
    directions, gates = len(backward), cell.gate_count
    inputs = Tensor("inputs", Scalar.F32, (directions, steps * batch, gates * hidden))
    weights = Tensor("weights", scalar, (directions, gates * hidden, hidden))
    right: Element = Read(weights, (along(0), Coordinate(((1, hidden), (3, 1))), along(2)))
    states = [
        Tensor(name, scalar, (directions, batch, hidden)) for name in ("h", "c", "y_h", "y_c")
    ]
    first = [_wide(Read(each, (along(0), along(1), along(2)))) for each in states[:2]]
    is_lstm = cell is Cell.LSTM
    return Recurrence(
        output=Tensor("y", scalar, (steps, directions, batch, hidden)),
        last=states[2],
        last_cell=states[3] if is_lstm else None,
        cell=cell,
        backward=backward,
        steps=steps,
        batch=batch,
        hidden=hidden,
        inputs=inputs,
        recurrence=_wide(right),
        late_bias=_parameter("late", directions, hidden) if "after" in cell else None,
        initial=first[0],
        initial_cell=first[1] if is_lstm else None,
        peepholes=(),
        lengths=None,
        activations=(_TANH,) if cell is Cell.RNN else (_SIGMOID, _TANH, _TANH)[: 2 + is_lstm],
    )


def _wide(element: Element) -> Element:
    return Convert(element, Scalar.F32)


def _parameter(name: str, directions: int, hidden: int) -> Element:
    return Read(Tensor(name, Scalar.F32, (directions, hidden)), (along(0), along(1)))


def _with_lengths(layer: Recurrence) -> tuple[Recurrence, Tensor]:
    lengths = Tensor("lengths", Scalar.I32, (layer.batch,))
    return replace(layer, lengths=Read(lengths, (along(0),))), lengths


def _check(
    layer: Recurrence,
    target: NativeTarget,
    *,
    is_constant: bool = True,
    given: dict[Tensor, Array] | None = None,
    symbols: dict[str, int] | None = None,
) -> None:
    """Holds what the kernels compute against what numpy computes."""
    random, numbers = np.random.default_rng(len(layer.output.name)), symbols or {}
    arrays = dict(given or {})
    for tensor in reads_of(layer):
        shape = [evaluate(size, numbers) for size in tensor.shape]
        if tensor not in arrays:
            arrays[tensor] = (random.standard_normal(shape) * 0.5).astype(DTYPES[tensor.scalar])
    outputs = {
        tensor: np.full([evaluate(size, numbers) for size in tensor.shape], np.nan,
                        DTYPES[tensor.scalar])
        for tensor in writes_of(layer)
    }  # fmt: skip
    expected = run_operation(layer, arrays, numbers)
    constants = {each for each in reads_of(layer) if each.name == "weights" and is_constant}
    kernels = schedule_recurrence(layer, target.model, constants)
    run_scheduled(kernels, {**arrays, **outputs}, target, numbers)
    tolerance = 1e-5 if layer.output.scalar is Scalar.F32 else 2e-3
    for tensor, made in outputs.items():
        np.testing.assert_allclose(
            made, expected[tensor], rtol=tolerance, atol=tolerance, err_msg=tensor.name
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("sizes", _SIZES)
@pytest.mark.parametrize("cell", Cell)
def test_each_cell_of_each_size(
    target: NativeTarget, sizes: tuple[int, int, int], cell: Cell
) -> None:
    _check(_layer(cell, sizes), target)


@pytest.mark.parametrize("cell", Cell)
@pytest.mark.parametrize("backward", [_REVERSE, _BOTH])
def test_directions(backward: tuple[bool, ...], cell: Cell) -> None:
    _check(_layer(cell, (4, 3, 20), backward), V3)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("cell", Cell)
@pytest.mark.parametrize("backward", [_FORWARD, _BOTH])
@pytest.mark.parametrize("target", [V4, V2], ids=str)
def test_sequences_of_different_lengths(
    target: NativeTarget, backward: tuple[bool, ...], cell: Cell
) -> None:
    layer, lengths = _with_lengths(_layer(cell, (5, 9, 18), backward))
    given = {lengths: np.array([5, 0, 3, 1, 5, 2, 4, 0, 5], np.int32)}
    _check(layer, target, given=given)


@pytest.mark.parametrize("lengths", [[-1, 3, 9], [2**31 - 1, -(2**31), 0]])
def test_lengths_that_do_not_fit_stay_within_the_steps(lengths: list[int]) -> None:
    layer, tensor = _with_lengths(_layer(Cell.LSTM, (3, 3, 16)))
    _check(layer, V3, given={tensor: np.array(lengths, np.int32)})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", [Cell.LSTM, Cell.GRU])
@pytest.mark.parametrize("sizes", [(3, 1), (2, 8), (1, 5), (0, 3), (4, 0)])
def test_steps_and_batch_may_be_open(sizes: tuple[int, int], cell: Cell) -> None:
    layer = _layer(cell, (symbol("t"), symbol("n"), 24), _BOTH)
    _check(layer, V4, symbols=dict(zip("tn", sizes, strict=True)))


@pytest.mark.parametrize("cell", Cell)
def test_weights_may_be_known_only_when_it_runs(cell: Cell) -> None:
    _check(_layer(cell, (3, 2, 21), _BOTH), V3, is_constant=False)


def test_float16_is_computed_as_f32() -> None:
    _check(_layer(Cell.LSTM, (3, 2, 33), scalar=Scalar.F16), V3)


def test_peepholes() -> None:
    layer = _layer(Cell.LSTM, (4, 2, 20), _BOTH)
    _check(replace(layer, peepholes=tuple(_parameter(each, 2, 20) for each in "iof")), V3)


def test_other_activations() -> None:
    layer = _layer(Cell.LSTM, (4, 2, 20))
    relu = Call(Function.MAX, (_MADE, Number(0.0, Scalar.F32)))
    halved = Call(Function.MUL, (_MADE, Number(0.5, Scalar.F32)))
    _check(replace(layer, activations=(relu, halved, _TANH)), V3)


@pytest.mark.parametrize("cell", [Cell.GRU, Cell.GRU_RESET_AFTER])
def test_a_state_and_a_candidate_whose_difference_is_infinite_are_mixed(cell: Cell) -> None:
    relu = Call(Function.MAX, (_MADE, Number(0.0, Scalar.F32)))
    layer = replace(_layer(cell, (1, 1, 20)), activations=(_SIGMOID, relu))
    given = {tensor: np.zeros([evaluate(size, {}) for size in tensor.shape], np.float32)
             for tensor in reads_of(layer)}  # fmt: skip
    given[layer.inputs][..., 40:] = 3e38
    given[next(tensor for tensor in given if tensor.name == "h")][...] = -3e38
    _check(layer, V3, given=given)


def test_last_states_and_initial_ones_may_be_left_out() -> None:
    layer = _layer(Cell.LSTM, (4, 2, 20))
    _check(replace(layer, last=None, last_cell=None, initial=None, initial_cell=None), V3)


def test_what_is_no_number_spreads_as_far_as_the_state_goes() -> None:
    layer = _layer(Cell.LSTM, (3, 2, 16))
    inputs = np.zeros((1, 6, 64), np.float32)
    inputs[0, 2, 0], inputs[0, 3, 1] = np.nan, np.inf
    _check(layer, V4, given={layer.inputs: inputs})


@pytest.mark.parametrize("cell", Cell)
def test_kernels_compile_for_aarch64(cell: Cell) -> None:
    model = MachineModel(vector_nbytes=16, register_count=32)
    compiler = ObjectCompiler(triple="aarch64-unknown-linux-gnu", cpu="cortex-a76")
    for scheduled in schedule_recurrence(_layer(cell, (4, 3, 20), _BOTH), model, ()):
        text = kernel_function(scheduled.kernel, "kernel", EmissionOptions())
        assert compiler.link(text).functions["kernel"] >= 0, scheduled.kernel.name


@pytest.mark.parametrize(
    ("cell", "waves"), [(Cell.LSTM, 100), (Cell.GRU, 200), (Cell.GRU_RESET_AFTER, 100)]
)
def test_each_panel_and_block_of_sequences_is_a_tile_of_each_turn(cell: Cell, waves: int) -> None:
    layer = _layer(cell, (100, 40, 64), _BOTH)
    tiling = recurrence_tiling(layer, V4.model)
    (steps,) = (each for each in schedule_recurrence(layer, V4.model, ()) if each.wave_tiles != 0)
    assert steps.wave_tiles == 2 * (64 // tiling.width) * -(-40 // tiling.row_block)
    assert steps.tile_count == waves * steps.wave_tiles
