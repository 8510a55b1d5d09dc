"""The rule by which machine code is held against the numpy kernels, and what it is held to."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from tests.fuzz.machine_code.comparison import difference
from tests.fuzz.machine_code.compiled_graphs import outcome_of
from tests.fuzz.machine_code.graph_maker import Array, Value
from tests.fuzz.machine_code.unfit_sizes import attack_sizes

_GRAPHS = 8
_SIZES = 60


def _value(wanted: Array, moved: Array | None = None) -> Value:
    return Value(
        name="v",
        arrays=(wanted,),
        moved=(wanted if moved is None else moved,),
        is_exact=moved is None,
        is_constant=False,
    )


def _floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    "wanted",
    [_floats(1.0, 2.0), np.array([1, 2], np.int8), np.array([True, False]), _floats(np.nan, 2.0)],
)
def test_what_no_rounding_touches_is_equal(wanted: Array) -> None:
    other = wanted.copy()
    other[1] = np.nextafter(other[1], 3) if wanted.dtype.kind == "f" else other[1] ^ 1

    assert difference(wanted, _value(wanted), 0) is None
    assert "1 of 2 elements differ" in str(difference(other, _value(wanted), 0))


def test_rounded_numbers_differ_by_what_the_reference_moves() -> None:
    value = _value(_floats(1.0, 2.0), _floats(1.001, 2.0))

    assert difference(_floats(1.003, 2.003), value, 0) is None
    assert "1 of 2 elements differ" in str(difference(_floats(1.0, 2.005), value, 0))


def test_what_is_infinite_or_no_number_is_so_in_both() -> None:
    value = _value(_floats(np.nan, np.inf), _floats(np.nan, np.inf))

    assert difference(_floats(np.nan, np.inf), value, 0) is None
    assert "2 of 2 elements differ" in str(difference(_floats(1.0, -np.inf), value, 0))


def test_codes_of_rounded_numbers_are_one_off_at_most() -> None:
    codes = np.array([5, 6], np.uint8)
    value = _value(codes, moved=codes)

    assert difference(codes + np.uint8(1), value, 0) is None
    assert "2 of 2 elements differ" in str(difference(codes + np.uint8(2), value, 0))


def test_another_shape_or_kind_is_told() -> None:
    value = _value(_floats(1.0))

    assert difference(_floats(1.0, 1.0), value, 0) == "float32 (2,) instead of float32 (1,)"
    assert difference(np.ones(1, np.int8), value, 0) == "int8 (1,) instead of float32 (1,)"


@pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
def test_most_random_graphs_are_compiled_whole() -> None:
    outcomes = [outcome_of(seed) for seed in range(_GRAPHS)]

    assert [each.problem for each in outcomes] == [None] * _GRAPHS
    assert sum(bool(each.compiled) for each in outcomes) > _GRAPHS // 2


@pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
def test_sizes_that_do_not_fit_give_no_result() -> None:
    pytest.importorskip("llvmlite")
    problems = {seed: attack_sizes(seed) for seed in range(_SIZES)}
    assert not {seed: problem for seed, problem in problems.items() if problem is not None}
