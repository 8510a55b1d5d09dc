"""Compiled contexts that a function of the caller stores and returns, instead of files.

Names are those of onnxruntime 1.31. The objects passed to the functions are valid during the call
only. Imports neither numpy nor onnx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ortpkg.foundations.errors import UsageError, quoted

_LARGEST_NBYTES = 2 * sys.maxsize + 1


class OrtEpContextData:
    """Data of a compiled context, passed to a function that stores it."""

    __slots__ = ("_data",)

    def __init__(self, data: memoryview) -> None:
        """Created for the function of :meth:`ModelCompiler.set_ep_context_data_write_func`."""
        self._data: memoryview | None = data

    @property
    def size(self) -> int:
        """Size in bytes; UsageError once the call has ended."""
        return self._valid().nbytes

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Return a copy of ``length`` bytes from ``offset``, by default the rest.

        Raises:
            UsageError: there are fewer bytes, or the call has ended.
        """
        data = self._valid()
        count = data.nbytes - offset if length is None else length
        if offset < 0 or count < 0 or offset + count > data.nbytes:
            raise UsageError(
                f"a context of {data.nbytes} bytes has no {count} bytes from byte {offset}"
            )
        return bytes(data[offset : offset + count])

    def end(self) -> None:
        """Invalidate the object at the end of the call."""
        self._data = None

    def _valid(self) -> memoryview:
        if self._data is None:
            raise UsageError(
                "the data of a context can be read during the call only; copy it there"
            )
        return self._data


class OrtEpContextDataBuffer:
    """Buffer for a context's data, for the function that returns it.

    Call ``allocate`` once, then ``write``.
    """

    __slots__ = ("_data", "_is_over", "_max_size")

    def __init__(self, max_size: int) -> None:
        """Created for the function of :meth:`SessionOptions.set_ep_context_data_read_func`."""
        self._max_size = max_size
        self._data: bytearray | None = None
        self._is_over = False

    @property
    def max_size(self) -> int:
        """Most bytes that may be allocated."""
        return self._max_size

    @property
    def is_allocated(self) -> bool:
        """True once :meth:`allocate` was called."""
        return self._data is not None

    @property
    def size(self) -> int:
        """Number of allocated bytes; 0 before :meth:`allocate`."""
        return 0 if self._data is None else len(self._data)

    def allocate(self, size: int) -> None:
        """Allocate bytes, all zero.

        Raises:
            UsageError: a second call, or more than ``max_size``.
        """
        self._check_not_over()
        if self._data is not None:
            raise UsageError("the data of a context is allocated once")
        if not 0 <= size <= self._max_size:
            raise UsageError(f"a context may have {self._max_size} bytes here, not {size}")
        self._data = bytearray(size)

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy bytes to ``offset``.

        Raises:
            UsageError: called before :meth:`allocate`, or the bytes do not fit.
        """
        self._check_not_over()
        if self._data is None:
            raise UsageError("allocate the data of a context before it is written")
        content = memoryview(data).cast("B")
        if offset < 0 or offset + content.nbytes > len(self._data):
            raise UsageError(
                f"{content.nbytes} bytes at byte {offset} do not fit into {len(self._data)}"
            )
        self._data[offset : offset + content.nbytes] = content

    def end(self) -> bytearray | None:
        """Invalidate the object and return its data; None if nothing was allocated."""
        self._is_over = True
        return self._data

    def _check_not_over(self) -> None:
        if self._is_over:
            raise UsageError("the data of a context can be written during the call only")


#: Function of (name, data).
ContextWriteFunction = Callable[[str, OrtEpContextData], object]
#: Function of (name, buffer for the data).
ContextReadFunction = Callable[[str, OrtEpContextDataBuffer], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDataFunctions:
    """Functions for contexts of one session's options.

    Attributes:
        read_function: fills in contexts that nodes name; None to read them from files.
        max_nbytes: largest context that it may return, in bytes.
        write_function: takes new contexts; None to write them to files.
    """

    read_function: ContextReadFunction | None = None
    max_nbytes: int = 0
    write_function: ContextWriteFunction | None = None

    @property
    def reader(self) -> Callable[[str], memoryview] | None:
        """Function that returns the data of a name.

        UsageError if the caller's function gives none.
        """
        return None if self.read_function is None else self._read

    @property
    def writer(self) -> Callable[[str, memoryview], None] | None:
        """Function that passes data on under a name."""
        return None if self.write_function is None else self._write

    def _read(self, name: str) -> memoryview:
        assert self.read_function is not None
        room = OrtEpContextDataBuffer(self.max_nbytes)
        try:
            self.read_function(name, room)
        finally:
            data = room.end()
        if data is None:
            raise UsageError(
                f"the function returned without data for {quoted(name)}; it has to allocate and"
                " write it"
            )
        return memoryview(data).toreadonly()

    def _write(self, name: str, content: memoryview) -> None:
        assert self.write_function is not None
        data = OrtEpContextData(content)
        try:
            self.write_function(name, data)
        finally:
            data.end()


def checked_function(function: Any) -> Any:
    """Return ``function``, with onnxruntime's errors for wrong ones.

    Raises:
        UsageError: it is None.
        TypeError: it cannot be called.
    """
    if function is None:
        raise UsageError("the function must not be None; to take it away, clear it")
    if not callable(function):
        raise TypeError(f"a function is needed, not {type(function).__name__}")
    return function


def checked_size(max_data_size: Any) -> int:
    """Return ``max_data_size``.

    Raises:
        TypeError: it is not a size.
        UsageError: it is 0 or too large.
    """
    if not isinstance(max_data_size, int) or not 0 <= max_data_size <= _LARGEST_NBYTES:
        raise TypeError(f"max_data_size is a number of bytes, not {quoted(max_data_size)}")
    if max_data_size in (0, _LARGEST_NBYTES):
        raise UsageError("max_data_size must be more than 0, and have a bound")
    return int(max_data_size)
