"""Functions of floats stay within the errors that they state, for every kind of number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.math_functions import (
    MATH_FUNCTIONS,
    exp_up_to_1,
    power,
    power_of_number,
)
from ortpkg.compiler.tensor_ir.elements import Function
from tests.compiler.native_kernels import run_kernel
from tests.compiler.native_targets import NATIVE_TARGETS, V4, NativeTarget

Array = npt.NDArray[Any]
_SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, -1e-40, 2.0**-126, -(2.0**-126),
     3.4028235e38, -3.4028235e38, 1.0, -1.0, 0.5, 2.0, -2.0, 88.72284, -87.33655, -103.97, 9.01],
    np.float32,
)  # fmt: skip
#: Where tanh (with fused products and without) and sigmoid are off most, of all numbers.
_WORST = np.array([0.0077671753242611885, 0.0620000883936882, -4.157293796539307], np.float32)


def _all_ranges(count: int) -> Array:
    """Floats of all exponents and both signs, dense ones between -128 and 128, special ones."""
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 1 << 32, count, np.uint64).astype(np.uint32)
    dense = [generator.uniform(-most, most, count).astype(np.float32) for most in (1, 10, 128)]
    made = np.concatenate([bits.view(np.float32), *dense, _SPECIAL, _WORST])
    return np.resize(made, -(-made.size // 16) * 16)


def _errors(made: Array, wanted: Array) -> Array:
    """In units in the last place; equal infinities and NaN are no error."""
    with np.errstate(all="ignore"):
        rounded = wanted.astype(np.float32)
        unit = np.abs(np.spacing(rounded)).astype(np.float64)
        error = np.abs(made.astype(np.float64) - wanted) / unit
    is_same = (made == rounded) | (np.isnan(made) & np.isnan(wanted))
    return np.where(is_same & ~np.isfinite(error), 0.0, np.where(np.isnan(error), np.inf, error))


def _run(target: NativeTarget, make: Callable[..., Any], *operands: Array) -> Array:
    b = KernelBuilder("function")
    lanes = target.model.lanes(Scalar.F32)
    buffers = [b.input(f"x{place}", Scalar.F32) for place in range(len(operands))]
    made = b.output("made", Scalar.F32)
    with b.loop(0, b.size("count"), lanes) as loop:
        values = [b.load(each, loop.index, lanes) for each in buffers]
        b.store(made, loop.index, make(b, *values))
    result = np.empty_like(operands[0])
    run_kernel(
        b.kernel(), [*operands, result], [result.size], tile_count=1, cpu=target.cpu,
        features=target.features,
    )  # fmt: skip
    return result


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


_REFERENCES: dict[Function, Callable[[Array], Array]] = {
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.TANH: np.tanh,
    Function.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    Function.SIGMOID: _sigmoid,
    # of a float64, C's functions reduce the argument exactly; numpy's may not
    Function.SIN: np.vectorize(lambda x: math.sin(x) if math.isfinite(x) else math.nan),
    Function.COS: np.vectorize(lambda x: math.cos(x) if math.isfinite(x) else math.nan),
}
_MOST: dict[Function, tuple[float, float]] = {
    Function.EXP: (1.1, 1.1),
    Function.LOG: (1.0, 1.2),
    Function.TANH: (2.5, 2.5),
    Function.ERF: (1.2, 1.2),
    Function.SIGMOID: (2.5, 2.5),
    Function.SIN: (1.6, 1.6),
    Function.COS: (1.6, 1.6),
}


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("function", list(MATH_FUNCTIONS), ids=str)
def test_errors_are_as_stated(function: Function, target: NativeTarget) -> None:
    x = _all_ranges(100_000)
    with np.errstate(all="ignore"):
        wanted = _REFERENCES[function](x.astype(np.float64))
    errors = _errors(_run(target, MATH_FUNCTIONS[function], x), wanted)
    worst = int(np.argmax(errors))
    most = _MOST[function][0 if target.model.has_fma else 1]
    assert errors[worst] <= most, f"{errors[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_exponentials_up_to_1_are_as_exact_and_0_at_the_far_end(target: NativeTarget) -> None:
    x = -np.abs(_all_ranges(100_000))
    made = _run(target, exp_up_to_1, x)
    with np.errstate(all="ignore"):
        errors = _errors(made, np.exp(x.astype(np.float64)))
    is_far = x < -86
    assert (made[is_far] == 0).all()
    worst = int(np.argmax(np.where(is_far, 0, errors)))
    assert errors[worst] <= 1.1, f"{errors[worst]:.2f} ulp at {x[worst]!r}"
    assert np.isnan(made[np.isnan(x)]).all()


#: Sines and cosines of float32 numbers that are far out; of the first three, next to 0 (computed to
#: 60 decimal digits).
_FAR = {
    7.729179e28: (1.0, -1.6147697982476211e-09),
    2.1999385e10: (1.0, -2.0126460319185528e-09),
    1.5458358e29: (-3.2295395964952422e-09, -1.0),
    1e5: (0.03574879797201651, -0.9993608074382124),
    1e9: (0.5458434494486996, 0.8378871813639024),
    1e27: (-0.9786508819131892, -0.20552968479160647),
    3e38: (0.8749048877644344, -0.4842947835419069),
    3.4028235e38: (-0.5218765233336585, 0.8530210398303042),
}


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_sines_of_far_numbers_are_right_beside_near_ones_and_infinities(
    target: NativeTarget,
) -> None:
    generator = np.random.default_rng(11)
    x = np.concatenate(
        [np.array(list(_FAR), np.float32), np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)]
    )
    x = np.resize(np.concatenate([x, -x, generator.uniform(-9, 9, x.size).astype(np.float32)]), 64)
    for slot, function in enumerate((Function.SIN, Function.COS)):
        results = _run(target, MATH_FUNCTIONS[function], x)
        np.testing.assert_allclose(
            results[: len(_FAR)], [pair[slot] for pair in _FAR.values()], rtol=2e-7
        )
        wanted = _REFERENCES[function](x.astype(np.float64))
        assert _errors(results, wanted).max() <= 1.6


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_powers_are_right_for_every_pair_of_numbers(target: NativeTarget) -> None:
    generator = np.random.default_rng(3)
    whole = np.array([-3, -2, 3, 4, 5, 7.5, 16777217, 0.25, -0.25], np.float32)
    special = np.concatenate([_SPECIAL, whole])
    base, exponent = (each.ravel() for each in np.meshgrid(special, special))
    base = np.concatenate([base, generator.uniform(0, 20, 100_000).astype(np.float32)])
    more = generator.uniform(-30, 30, 100_000).astype(np.float32)
    exponent = np.concatenate([exponent, more])
    count = base.size // 16 * 16
    base, exponent = base[-count:].copy(), exponent[-count:].copy()
    with np.errstate(all="ignore"):
        wanted = np.power(base.astype(np.float64), exponent.astype(np.float64))
    made = _run(target, power, base, exponent)
    errors = _errors(made, wanted)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 0.6, (
        f"{errors[worst]:.2f} ulp at {base[worst]!r} ** {exponent[worst]!r}, {made[worst]!r}"
    )
    is_zero = (made == 0) & (wanted == 0)
    np.testing.assert_array_equal(np.signbit(made[is_zero]), np.signbit(wanted[is_zero]))


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 2.5])
def test_powers_that_are_known_are_right(exponent: float) -> None:
    x = _all_ranges(1000)
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), np.full(x.shape, exponent))
    errors = _errors(_run(V4, lambda b, base: power_of_number(b, base, exponent), x), wanted)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 2, f"{errors[worst]:.2f} ulp at {x[worst]!r}"
