"""Bounds checks in emitted code, without a branch for each.

An access that would leave its buffer goes to memory of the function's own instead, and its ordinal
is remembered; at the end of the tile the function tells it and returns. So a kernel with checks
stays one straight line where it was one, and compiles in reasonable time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: The longest vector: 256 lanes of 8 bytes.
_MOST_NBYTES = 2048


class CheckedEmitter(Protocol):
    """Where instructions go."""

    def do(self, instruction: str) -> str:
        """Emits an instruction, and gives the name of what it makes."""
        ...

    def line(self, text: str) -> None:
        """Emits an instruction that makes nothing."""
        ...

    def call(self, intrinsic: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Calls one of LLVM's intrinsics with (type, value) pairs."""
        ...

    def splat(self, value: str, element: str, lanes: int) -> str:
        """A vector of one value."""
        ...


class BoundsChecks:
    """The checks of one function."""

    def __init__(self, emitter: CheckedEmitter) -> None:
        self._emitter = emitter
        self._access_count = 0

    def prologue(self) -> None:
        """Emits what the checks need, at the function's start."""
        emitter = self._emitter
        emitter.line("%failure = alloca i64")
        emitter.line("store i64 0, ptr %failure")
        emitter.line(f"%nowhere = alloca [{_MOST_NBYTES} x i8], align 64")
        arguments = [("ptr", "%nowhere"), ("i8", "0"), ("i64", str(_MOST_NBYTES)), ("i1", "false")]
        emitter.call("llvm.memset.inline.p0.i64", "void", arguments)

    def address(self, address: str, index: str, count: str, length: str) -> str:
        """The address, or one that is the function's own where elements are outside.

        Args:
            address: of the element at ``index``.
            index: of the first element.
            count: how many are read or written.
            length: of the buffer, in elements.
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
        """Which lanes' indices are in the buffer."""
        emitter = self._emitter
        most = emitter.splat(length, "i64", lanes)
        # an index below 0 is a large one without its sign
        inside = emitter.do(f"icmp ult <{lanes} x i64> {indices}, {most}")
        mask = [(f"<{lanes} x i1>", inside)]
        are_all = emitter.call(f"llvm.vector.reduce.and.v{lanes}i1", "i1", mask)
        self._note(emitter.do(f"xor i1 {are_all}, true"))
        return inside

    def has_failed(self) -> str:
        """Whether an access failed, as the name of an i1; its ordinal is told to whoever called."""
        do = self._emitter.do
        failed = do("load i64, ptr %failure")
        word = do("getelementptr i64, ptr %status, i64 1")
        told = do(f"load i64, ptr {word}")
        is_new = do(f"icmp ne i64 {failed}, 0")
        kept = do(f"select i1 {is_new}, i64 {failed}, i64 {told}")
        self._emitter.line(f"store i64 {kept}, ptr {word}")
        return is_new

    def _note(self, is_wrong: str) -> None:
        """Remembers the ordinal of the access, unless one failed before."""
        self._access_count += 1
        do = self._emitter.do
        before = do("load i64, ptr %failure")
        is_first = do(f"icmp eq i64 {before}, 0")
        is_noted = do(f"and i1 {is_wrong}, {is_first}")
        after = do(f"select i1 {is_noted}, i64 {self._access_count}, i64 {before}")
        self._emitter.line(f"store i64 {after}, ptr %failure")
