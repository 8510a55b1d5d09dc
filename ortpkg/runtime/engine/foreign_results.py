"""Make the results of a plug-in's partition safe to keep: each output becomes an own array.

A plug-in may return its input, a constant, or one array for two outputs: these are copied. If it
returns memory that it returned before, and that somebody still holds, it has overwritten a result:
that is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.op_kernel import Value

#: Number of earlier results that are remembered.
_MOST_REMEMBERED = 32

Array = np.ndarray[Any, Any]


class ForeignResults:
    """Results of one fused node of a plug-in; calls may overlap in time."""

    def __init__(self, provider: str, names: Sequence[str]) -> None:
        self._provider = provider
        self._names = tuple(names)
        self._lock = threading.Lock()
        self._earlier: list[ReferenceType[Array]] = []

    def safe_outputs(
        self, outputs: Sequence[Value], inputs: Sequence[Value], handed: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Return the outputs as plain arrays, copied if they share memory with other values.

        Args:
            outputs: the results of the plug-in.
            inputs: the inputs that it was given.
            handed: arrays that the engine handed out for outputs, whose memory is the engine's.

        Raises:
            ValueError: a result lies in memory of an earlier result that is still in use.
        """
        arrays: list[Array] = []
        results: list[Value] = []
        for name, value in zip(self._names, outputs, strict=True):
            result = value
            if isinstance(value, np.ndarray) and not _shares(value, handed):
                # A view, to tell a holder of the result from a holder of the plug-in's array.
                result = np.asarray(value).view()
                if not result.flags.writeable or _shares(result, inputs) or _shares(result, arrays):
                    result = result.copy()
                self._verify_new(name, result)
                arrays.append(result)
            results.append(result)
        with self._lock:
            alive = [reference for reference in self._earlier if reference() is not None]
            self._earlier = [*alive, *map(ref, arrays)][-_MOST_REMEMBERED:]
        return tuple(results)

    def _verify_new(self, name: str, value: Array) -> None:
        with self._lock:
            earlier = [array for reference in self._earlier if (array := reference()) is not None]
        if _shares(value, earlier):
            raise ValueError(
                f"{self._provider} returned {quoted(name)} in memory of a result that it returned"
                " before and that is still in use, which is overwritten now; it returns new arrays"
                " in each run"
            )


def apart(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return several outputs of a kernel, copying those that share memory with an earlier one."""
    separated: list[Value] = []
    for value in values:
        separated.append(
            value.copy() if isinstance(value, np.ndarray) and _shares(value, separated) else value
        )
    return tuple(separated)


def _shares(value: Array, others: Sequence[Value]) -> bool:
    return any(
        isinstance(other, np.ndarray) and np.may_share_memory(value, other) for other in others
    )
