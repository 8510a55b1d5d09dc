"""Memory of sequences' elements and of texts, counted for a run's memory limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.op_kernel import Tensor, Value

#: Texts that are examined together: within them a repeated text counts once.
_TEXTS_AT_ONCE = 1 << 16


class ValueParts:
    """The parts of one frame's values: elements of sequences, and texts.

    Sequences of a run share elements, which count once; texts count with each array that holds
    them.
    """

    __slots__ = ("_control", "_elements", "_texts")

    def __init__(self, control: RunControl) -> None:
        self._control = control
        self._elements: dict[int, tuple[Value, ...]] = {}
        self._texts: dict[int, int] = {}

    def keep(self, value_index: int, value: Value) -> bool:
        """Count the parts of a value that a node has made; return True if it has any.

        Raises:
            LimitExceededError: they pass the limit.
        """
        if isinstance(value, list):
            elements = tuple(value)
            self._control.charge_shared({id(element): part_nbytes(element) for element in elements})
            self._elements[value_index] = elements
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            nbytes = string_data_nbytes(value)
            self._control.charge(nbytes)
            self._texts[value_index] = nbytes
        else:
            return False
        return True

    def give_back(self, value_index: int) -> None:
        """Discharge the parts of a dead value."""
        elements = self._elements.pop(value_index, None)
        if elements is not None:
            self._control.discharge_shared({id(element) for element in elements})
        self._control.discharge(self._texts.pop(value_index, 0))

    def close(self) -> None:
        """Discharge all parts at the end of the run."""
        for index in (*self._elements, *self._texts):
            self.give_back(index)


def part_nbytes(value: Value) -> int:
    """Return the size of an element of a sequence in bytes, texts included."""
    if not isinstance(value, np.ndarray):
        return 0
    return value.nbytes + (string_data_nbytes(value) if value.dtype.hasobject else 0)


def string_data_nbytes(array: Tensor) -> int:
    """Return the bytes of an array's texts; one that is repeated far away counts again."""
    return sum(
        sum(map(sys.getsizeof, {id(text): text for text in part}.values()))
        for part in _parts_of(array)
    )


def _parts_of(array: Tensor) -> Iterator[list[object]]:
    flat = array.reshape(-1)
    for start in range(0, flat.size, _TEXTS_AT_ONCE):
        yield flat[start : start + _TEXTS_AT_ONCE].tolist()
