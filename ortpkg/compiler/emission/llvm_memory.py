"""Emits accesses of a kernel to its buffers: LLVM IR of loads, gathers and stores.

If only some lanes of a vector are used, a mask keeps the others from accessing memory. Bounds
checks
(:mod:`ortpkg.compiler.emission.bounds_checks`) may redirect an access.
"""

from __future__ import annotations

from typing import Protocol

from ortpkg.compiler.emission.bounds_checks import BoundsChecks, CheckedEmitter
from ortpkg.compiler.emission.llvm_types import llvm_type, memory_type, suffix_of
from ortpkg.compiler.loop_ir.kernel import (
    Buffer,
    Gather,
    Kernel,
    Load,
    Prefetch,
    Store,
    Value,
    aligned,
)
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar


class MemoryEmitter(CheckedEmitter, Protocol):
    """Receiver of emitted instructions that knows the names of values."""

    def name_of(self, value: Value) -> str:
        """Return the name, or the number, of a value computed before."""
        ...

    def size_word(self, index: int) -> str:
        """Load one of the sizes that the function is called with, by its index."""
        ...


class MemoryAccess:
    """The buffers of one function, with their addresses and lengths, and accesses to them."""

    def __init__(self, emitter: MemoryEmitter, checks: BoundsChecks | None) -> None:
        self._emitter, self._checks = emitter, checks
        self._pointers: dict[Buffer, str] = {}
        self._lengths: dict[Buffer, str] = {}

    def find_buffers(self, kernel: Kernel) -> None:
        """Emit, at the function's start, the addresses of buffers and scratch memory."""
        do = self._emitter.do
        for index, buffer in enumerate(kernel.buffers):
            address = do(f"getelementptr ptr, ptr %buffers, i64 {index}")
            self._pointers[buffer] = do(f"load ptr, ptr {address}")
        offset = 0
        for buffer in kernel.scratch:
            self._pointers[buffer] = do(f"getelementptr i8, ptr %scratch, i64 {offset}")
            self._lengths[buffer] = str(buffer.count)
            offset += aligned(buffer.count * buffer.scalar.nbytes)

    def find_lengths(self, kernel: Kernel) -> None:
        """Emit, after the sizes, the lengths of buffers; nothing without checks."""
        if self._checks is None:
            return
        self._checks.prologue()
        for number, buffer in enumerate(kernel.buffers, start=len(kernel.sizes)):
            length = f"udiv i64 {self._emitter.size_word(number)}, {buffer.scalar.nbytes}"
            self._lengths[buffer] = self._emitter.do(length)

    def load(self, load: Load) -> str:
        """Emit a load; return the name of its result."""
        kind = load.result.type
        address = self._address(load.buffer, load.index, kind.lanes, load.count)
        memory = memory_type(kind)
        if load.count is None:
            loaded = self._emitter.do(f"load {memory}, ptr {address}, align {kind.scalar.nbytes}")
        else:
            loaded = self._masked_load(memory, address, kind, load.count)
        return self._from_memory(loaded, kind)

    def _masked_load(self, memory: str, address: str, kind: LoopType, count: Value) -> str:
        mask = self._mask(self._emitter.name_of(count), kind.lanes)
        return self._emitter.call(
            f"llvm.masked.load.{suffix_of(memory)}.p0",
            memory,
            [
                (f"ptr align {kind.scalar.nbytes}", address),
                (f"<{kind.lanes} x i1>", mask),
                (memory, "zeroinitializer"),
            ],
        )

    def gather(self, gather: Gather) -> str:
        """Emit a load of each lane from its own index; return the vector's name."""
        kind = gather.result.type
        if kind.lanes > 1:
            return self._from_memory(self._gathered(gather), kind)
        address = self._address(gather.buffer, gather.indices, 1, None)
        loaded = f"load {memory_type(kind)}, ptr {address}, align {kind.scalar.nbytes}"
        return self._from_memory(self._emitter.do(loaded), kind)

    def _gathered(self, gather: Gather) -> str:
        kind, lanes = gather.result.type, gather.result.type.lanes
        indices = self._emitter.name_of(gather.indices)
        if self._checks is None:
            mask = f"<{', '.join(['i1 true'] * lanes)}>"
        else:
            mask = self._checks.lanes_inside(indices, lanes, self._lengths[gather.buffer])
        element = memory_type(kind.with_lanes(1))
        addresses = self._emitter.do(
            f"getelementptr {element}, ptr {self._pointers[gather.buffer]},"
            f" {llvm_type(gather.indices.type)} {indices}"
        )
        memory = memory_type(kind)
        return self._emitter.call(
            f"llvm.masked.gather.{suffix_of(memory)}.v{lanes}p0",
            memory,
            [
                (f"<{lanes} x ptr> align {kind.scalar.nbytes}", addresses),
                (f"<{lanes} x i1>", mask),
                (memory, "zeroinitializer"),
            ],
        )

    def store(self, store: Store) -> None:
        """Emit a store of a value's lanes, masked if it has a count."""
        emitter, kind = self._emitter, store.value.type
        address = self._address(store.buffer, store.index, kind.lanes, store.count)
        value, memory = emitter.name_of(store.value), memory_type(kind)
        if kind.scalar is Scalar.BOOL:
            value = emitter.do(f"zext {llvm_type(kind)} {value} to {memory}")
        if store.count is None:
            emitter.line(f"store {memory} {value}, ptr {address}, align {kind.scalar.nbytes}")
            return
        count = emitter.name_of(store.count)
        if kind.scalar.nbytes < 4:  # LLVM 22 writes 4 bytes if it knows that the count is 1
            count = emitter.do(f'call i64 asm "", "=r,0"(i64 {count})')
        emitter.call(
            f"llvm.masked.store.{suffix_of(memory)}.p0",
            "void",
            [
                (memory, value),
                (f"ptr align {kind.scalar.nbytes}", address),
                (f"<{kind.lanes} x i1>", self._mask(count, kind.lanes)),
            ],
        )

    def prefetch(self, prefetch: Prefetch) -> None:
        """Emit a hint that an element is read soon."""
        address = self._unchecked(prefetch.buffer, self._emitter.name_of(prefetch.index))
        flags = [("i32", "0"), ("i32", "3"), ("i32", "1")]  # read, keep it near, data
        self._emitter.call("llvm.prefetch.p0", "void", [("ptr", address), *flags])

    def _from_memory(self, loaded: str, kind: LoopType) -> str:
        """Emit the conversion of a loaded value: a bool is a byte in memory, a bit in registers."""
        if kind.scalar is not Scalar.BOOL:
            return loaded
        nothing = "zeroinitializer" if kind.lanes > 1 else "0"
        return self._emitter.do(f"icmp ne {memory_type(kind)} {loaded}, {nothing}")

    def _mask(self, count: str, lanes: int) -> str:
        """Emit a mask of the first ``count`` lanes."""
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>"
        most = self._emitter.splat(count, "i64", lanes)
        return self._emitter.do(f"icmp slt <{lanes} x i64> {numbers}, {most}")

    def _address(self, buffer: Buffer, index: Value, lanes: int, count: Value | None) -> str:
        position = self._emitter.name_of(index)
        address = self._unchecked(buffer, position)
        if self._checks is None:
            return address
        touched = str(lanes) if count is None else self._bounded_count(count, lanes)
        return self._checks.address(address, position, touched, self._lengths[buffer])

    def _unchecked(self, buffer: Buffer, position: str) -> str:
        element = memory_type(LoopType(buffer.scalar))
        return self._emitter.do(
            f"getelementptr {element}, ptr {self._pointers[buffer]}, i64 {position}"
        )

    def _bounded_count(self, count: Value, lanes: int) -> str:
        call, number = self._emitter.call, self._emitter.name_of(count)
        most = call("llvm.smin.i64", "i64", [("i64", number), ("i64", str(lanes))])
        return call("llvm.smax.i64", "i64", [("i64", most), ("i64", "0")])
