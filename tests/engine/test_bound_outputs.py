"""Bound memory is written during a run only where nothing else of the run still needs it."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.runtime.engine.bound_outputs import BoundOutputs
from tests.engine.plan_factories import Planned

#: y may be made where x lies; z is made from x's neighbour, which two nodes read.
PLANNED = Planned(
    "y = Relu(x)\na = Conv(w)\nz = Relu(w)\nz2 = Conv(a)", inputs="x w", outputs="y z z2"
)
Y, Z = (PLANNED.plan.values.index_of(name) for name in ("y", "z"))
MEMORY = np.zeros(100, np.float32)
X, W = np.ones(10, np.float32), np.ones(10, np.float32)


def chosen(y: np.ndarray, z: np.ndarray, x: np.ndarray = X, w: np.ndarray = W) -> list[str]:
    found = BoundOutputs(PLANNED.plan, PLANNED.allocation).choose({Y: y, Z: z}, [x, w])
    assert all(found[index] is array for index, array in ((Y, y), (Z, z)) if index in found)
    return [name for name, index in (("y", Y), ("z", Z)) if index in found]


def test_memory_of_their_own_is_written_at_once() -> None:
    assert chosen(MEMORY[:10], MEMORY[10:20]) == ["y", "z"]


@pytest.mark.parametrize("z", [MEMORY[:10], MEMORY[9:19], MEMORY[2:4], MEMORY[0:40]])
def test_outputs_that_overlap_are_both_copied_at_the_end(z: np.ndarray) -> None:
    assert chosen(MEMORY[:10], z) == []


def test_an_output_in_the_place_of_the_input_that_it_may_overwrite_is_written_there() -> None:
    assert chosen(MEMORY[:10], MEMORY[10:20], x=MEMORY[:10]) == ["y", "z"]


@pytest.mark.parametrize("x", [MEMORY[1:11], MEMORY[:11], MEMORY[:9], MEMORY[9:12]])
def test_an_output_that_only_overlaps_its_input_is_not(x: np.ndarray) -> None:
    assert chosen(MEMORY[:10], MEMORY[50:60], x=x) == ["z"]


def test_an_input_that_others_read_is_not_written_over() -> None:
    assert chosen(MEMORY[:10], MEMORY[10:20], w=MEMORY[10:20]) == ["y"]
    assert chosen(MEMORY[:10], MEMORY[10:20], w=MEMORY[:10]) == ["z"]


def test_several_things_in_one_place_are_all_seen() -> None:
    assert chosen(MEMORY[20:30], MEMORY[40:50], x=MEMORY[0:60], w=MEMORY[5:8]) == []


def test_memory_that_cannot_be_written_as_it_lies_is_left() -> None:
    fixed = np.zeros(10, np.float32)
    fixed.flags.writeable = False
    assert chosen(MEMORY[:20:2], fixed) == []
    assert chosen(MEMORY[:0], MEMORY[10:20]) == ["z"]
