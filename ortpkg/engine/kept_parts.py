"""What sequences and arrays of texts hold beside themselves, counted for a run's memory limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from ortpkg.engine.run_control import RunControl
from ortpkg.kernels.op_kernel import Tensor, Value

#: Within so many texts one that comes again is counted once.
_TEXTS_AT_ONCE = 1 << 16


class KeptParts:
    """The parts of one frame's values: elements of sequences, and texts.

    Elements are shared by the sequences of a run, and counted once; texts are counted with each
    array that holds them.
    """

    __slots__ = ("_control", "_elements", "_texts")

    def __init__(self, control: RunControl) -> None:
        self._control = control
        self._elements: dict[int, tuple[Value, ...]] = {}
        self._texts: dict[int, int] = {}

    def keep(self, value_index: int, value: Value) -> bool:
        """Count the parts of a value that a node has made; whether it has any.

        LimitExceededError where they pass the limit.
        """
        if isinstance(value, list):
            elements = tuple(value)
            self._control.charge_shared({id(each): part_nbytes(each) for each in elements})
            self._elements[value_index] = elements
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            nbytes = texts_nbytes(value)
            self._control.charge(nbytes)
            self._texts[value_index] = nbytes
        else:
            return False
        return True

    def give_back(self, value_index: int) -> None:
        """The value is dead."""
        elements = self._elements.pop(value_index, None)
        if elements is not None:
            self._control.discharge_shared({id(each) for each in elements})
        self._control.discharge(self._texts.pop(value_index, 0))

    def close(self) -> None:
        """The run of the frame is over."""
        for index in (*self._elements, *self._texts):
            self.give_back(index)


def part_nbytes(value: Value) -> int:
    """What an element of a sequence takes, its texts included."""
    if not isinstance(value, np.ndarray):
        return 0
    return value.nbytes + (texts_nbytes(value) if value.dtype.hasobject else 0)


def texts_nbytes(array: Tensor) -> int:
    """What the texts of an array take beside it; one that stands far from itself counts again."""
    return sum(
        sum(map(sys.getsizeof, {id(text): text for text in part}.values()))
        for part in _parts_of(array)
    )


def _parts_of(array: Tensor) -> Iterator[list[object]]:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _TEXTS_AT_ONCE):
        yield flat[start : start + _TEXTS_AT_ONCE].tolist()
