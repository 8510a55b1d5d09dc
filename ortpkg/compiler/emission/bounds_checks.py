"""Bounds checks in emitted code, without a branch for each.

An access that would leave its buffer goes to memory of the function itself instead, and its ordinal
is recorded; at the end of the tile the function reports it and returns. So straight-line kernels
stay so with checks, and compile in reasonable time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: The longest vector: 256 lanes of 8 bytes.
_MOST_NBYTES = 2048


class CheckedEmitter(Protocol):
    """Receiver of emitted instructions."""

    def do(self, instruction: str) -> str:
        """Emit an instruction; return the name of its result."""
        ...

    def line(self, text: str) -> None:
        """Emit an instruction without a result."""
        ...

    def call(self, intrinsic: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic with (type, value) pairs; return the name of its result."""
        ...

    def splat(self, value: str, element: str, lanes: int) -> str:
        """Emit a vector with one value in each lane; return its name."""
        ...


class BoundsChecks:
    """Bounds checks of one function."""

    def __init__(self, emitter: CheckedEmitter) -> None:
        self._emitter = emitter
        self._access_count = 0

    def prologue(self) -> None:
        """Emit the variables of the checks, at the function's start."""
        emitter = self._emitter
        emitter.line("%failure = alloca i64")
        emitter.line("store i64 0, ptr %failure")
        emitter.line(f"%nowhere = alloca [{_MOST_NBYTES} x i8], align 64")
        arguments = [("ptr", "%nowhere"), ("i8", "0"), ("i64", str(_MOST_NBYTES)), ("i1", "false")]
        emitter.call("llvm.memset.inline.p0.i64", "void", arguments)

    def address(self, address: str, index: str, count: str, length: str) -> str:
        """Emit the address of an access, replaced by the function's own memory if out of bounds.

        Args:
            address: address of the element at ``index``.
            index: index of the first element.
            count: number of elements read or written.
            length: length of the buffer, in elements.
        """
        do = self._emitter.do
        end = do(f"add i64 {index}, {count}")
        is_low = do(f"icmp slt i64 {index}, 0")
        is_high = do(f"icmp sgt i64 {end}, {length}")
        is_some = do(f"icmp ne i64 {count}, 0")
        is_out = do(f"or i1 {is_low}, {is_high}")
        is_wrong = do(f"and i1 {is_some}, {is_out}")
        self._note(is_wrong)
        return do(f"select i1 {is_wrong}, ptr %nowhere, ptr {address}")

    def lanes_inside(self, indices: str, lanes: int, length: str) -> str:
        """Emit a mask of the lanes whose indices are in the buffer; return its name."""
        emitter = self._emitter
        most = emitter.splat(length, "i64", lanes)
        # an index below 0 is a large one without its sign
        inside = emitter.do(f"icmp ult <{lanes} x i64> {indices}, {most}")
        mask = [(f"<{lanes} x i1>", inside)]
        are_all = emitter.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", mask)
        self._note(emitter.do(f"xor i1 {are_all}, true"))
        return inside

    def has_failed(self) -> str:
        """Emit a test whether an access failed, as an i1, and report the access to the caller."""
        do = self._emitter.do
        failed = do("load i64, ptr %failure")
        word = do("getelementptr i64, ptr %status, i64 1")
        reported = do(f"load i64, ptr {word}")
        is_new = do(f"icmp ne i64 {failed}, 0")
        ordinal = do(f"select i1 {is_new}, i64 {failed}, i64 {reported}")
        self._emitter.line(f"store i64 {ordinal}, ptr {word}")
        return is_new

    def _note(self, is_wrong: str) -> None:
        """Record the ordinal of the access if it is the first that failed."""
        self._access_count += 1
        do = self._emitter.do
        before = do("load i64, ptr %failure")
        is_first = do(f"icmp eq i64 {before}, 0")
        is_noted = do(f"and i1 {is_wrong}, {is_first}")
        after = do(f"select i1 {is_noted}, i64 {self._access_count}, i64 {before}")
        self._emitter.line(f"store i64 {after}, ptr %failure")
