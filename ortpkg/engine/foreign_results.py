"""What a plug-in's partition hands back, made safe to keep: each output an array of its own.

A plug-in that returns its input, a constant, or one array for two outputs means no harm, and gets a
copy made. One that returns memory which it returned before, and which somebody still holds, has
overwritten a result: that is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from ortpkg.errors import quoted
from ortpkg.kernels.op_kernel import Value

#: Results that are remembered; who holds more of them learns of it a little later.
_MOST_REMEMBERED = 32

Array = np.ndarray[Any, Any]


class ForeignResults:
    """The results of one fused node of a plug-in; calls may overlap in time."""

    def __init__(self, provider: str, names: Sequence[str]) -> None:
        self._provider = provider
        self._names = tuple(names)
        self._lock = threading.Lock()
        self._earlier: list[ReferenceType[Array]] = []

    def taken(
        self, outputs: Sequence[Value], inputs: Sequence[Value], handed: Sequence[Value]
    ) -> tuple[Value, ...]:
        """The outputs: arrays as plain ones, copied where they share memory with what stays.

        Args:
            outputs: what it returned.
            inputs: what it was given.
            handed: arrays that the engine handed out for outputs, whose memory is the engine's.

        Raises ValueError for memory of an earlier result that is still in use.
        """
        own: list[Array] = []
        found: list[Value] = []
        for name, value in zip(self._names, outputs, strict=True):
            kept = value
            if isinstance(value, np.ndarray) and not _shares(value, handed):
                # A view, so that who still holds the result is told from who still holds the array
                # that it came in.
                kept = np.asarray(value).view()
                if not kept.flags.writeable or _shares(kept, inputs) or _shares(kept, own):
                    kept = kept.copy()
                self._verify_new(name, kept)
                own.append(kept)
            found.append(kept)
        with self._lock:
            alive = [each for each in self._earlier if each() is not None]
            self._earlier = [*alive, *map(ref, own)][-_MOST_REMEMBERED:]
        return tuple(found)

    def _verify_new(self, name: str, value: Array) -> None:
        with self._lock:
            earlier = [array for each in self._earlier if (array := each()) is not None]
        if _shares(value, earlier):
            raise ValueError(
                f"{self._provider} returned {quoted(name)} in memory of a result that it returned"
                " before and that is still in use, which is overwritten now; it returns new arrays"
                " in each run"
            )


def apart(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Several outputs of a kernel, those copied that share memory with one before them."""
    found: list[Value] = []
    for value in values:
        found.append(
            value.copy() if isinstance(value, np.ndarray) and _shares(value, found) else value
        )
    return tuple(found)


def _shares(value: Array, others: Sequence[Value]) -> bool:
    return any(isinstance(each, np.ndarray) and np.may_share_memory(value, each) for each in others)
