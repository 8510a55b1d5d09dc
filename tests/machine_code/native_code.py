"""Code for this machine from LLVM IR, mapped: kernels written by hand beside the executor."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.emission.executor import executor_module
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.machine_code.cpu_targets import CpuTarget, host_target
from ortpkg.compiler.machine_code.executable_memory import ExecutableCode, map_code

Words = npt.NDArray[np.int64]

#: Adds 1 to a 64-bit number per tile; tiles take unequal time.
COUNT = """
define void @count(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
entry:
  %numbers = load ptr, ptr %buffers
  br label %tile
tile:
  %t = phi i64 [ %first, %entry ], [ %next, %counted ]
  %weight = and i64 %t, 7
  %rounds = mul i64 %weight, %weight
  br label %idle
idle:
  %i = phi i64 [ 0, %tile ], [ %more, %idle ]
  store volatile i64 %i, ptr %scratch
  %more = add i64 %i, 1
  %again = icmp slt i64 %more, %rounds
  br i1 %again, label %idle, label %add
add:
  %place = getelementptr i64, ptr %numbers, i64 %t
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  br label %counted
counted:
  %next = add i64 %t, 1
  %some = icmp slt i64 %next, %end
  br i1 %some, label %tile, label %done
done:
  ret void
}
"""
#: out[t] = in[(t * sizes[0]) mod sizes[1]] + 1, for 64-bit numbers.
TURN = """
define void @turn(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
entry:
  %in = load ptr, ptr %buffers
  %out_at = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %out_at
  %times = load i64, ptr %sizes
  %count_at = getelementptr i64, ptr %sizes, i64 1
  %count = load i64, ptr %count_at
  br label %tile
tile:
  %t = phi i64 [ %first, %entry ], [ %next, %tile ]
  %far = mul i64 %t, %times
  %from = urem i64 %far, %count
  %in_place = getelementptr i64, ptr %in, i64 %from
  %old = load i64, ptr %in_place
  %new = add i64 %old, 1
  %out_place = getelementptr i64, ptr %out, i64 %t
  store i64 %new, ptr %out_place
  %next = add i64 %t, 1
  %some = icmp slt i64 %next, %end
  br i1 %some, label %tile, label %done
done:
  ret void
}
"""
#: out[t + sizes[0]] = out[t - t mod sizes[0] + (t + 1) mod sizes[0]] + 1, for 64-bit numbers: what
#: another tile of the wave before wrote.
FOLLOW = """
define void @follow(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
entry:
  %numbers = load ptr, ptr %buffers
  %wave = load i64, ptr %sizes
  br label %tile
tile:
  %t = phi i64 [ %first, %entry ], [ %next, %tile ]
  %next = add i64 %t, 1
  %within = urem i64 %t, %wave
  %wave_first = sub i64 %t, %within
  %neighbour = urem i64 %next, %wave
  %from = add i64 %wave_first, %neighbour
  %from_place = getelementptr i64, ptr %numbers, i64 %from
  %old = load i64, ptr %from_place
  %new = add i64 %old, 1
  %to = add i64 %t, %wave
  %to_place = getelementptr i64, ptr %numbers, i64 %to
  store i64 %new, ptr %to_place
  %some = icmp slt i64 %next, %end
  br i1 %some, label %tile, label %done
done:
  ret void
}
"""
#: Notes at the first tile of each call how many calls there have been.
NOTE_TURN = """
define void @note_turn(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
  %turns = load ptr, ptr %buffers
  %calls_at = getelementptr ptr, ptr %buffers, i64 1
  %calls = load ptr, ptr %calls_at
  %before = load i64, ptr %calls
  %turn = add i64 %before, 1
  store i64 %turn, ptr %calls
  %place = getelementptr i64, ptr %turns, i64 %first
  store i64 %turn, ptr %place
  ret void
}
"""
#: About a millisecond of work per tile.
SLOW = """
define void @slow(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
entry:
  %tiles = sub i64 %end, %first
  %rounds = mul i64 %tiles, 1000000
  br label %idle
idle:
  %i = phi i64 [ 0, %entry ], [ %more, %idle ]
  store volatile i64 %i, ptr %scratch
  %more = add i64 %i, 1
  %again = icmp slt i64 %more, %rounds
  br i1 %again, label %idle, label %done
done:
  ret void
}
"""
#: Fails at tile sizes[0], as code with bounds checks does at its fifth access.
FAIL = """
define void @fail(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
  %bad = load i64, ptr %sizes
  %below = icmp slt i64 %bad, %first
  %above = icmp sge i64 %bad, %end
  %outside = or i1 %below, %above
  br i1 %outside, label %done, label %failed
failed:
  %failure_at = getelementptr i64, ptr %status, i64 1
  store i64 5, ptr %failure_at
  ret void
done:
  ret void
}
"""
#: y = x + w (32-bit floats, row by row), sizes: columns.
ADD_ROW = """
define void @add_row(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {
entry:
  %x = load ptr, ptr %buffers
  %w_at = getelementptr ptr, ptr %buffers, i64 1
  %w = load ptr, ptr %w_at
  %y_at = getelementptr ptr, ptr %buffers, i64 2
  %y = load ptr, ptr %y_at
  %columns = load i64, ptr %sizes
  %from = mul i64 %first, %columns
  %to = mul i64 %end, %columns
  %none = icmp sge i64 %from, %to
  br i1 %none, label %done, label %each
each:
  %i = phi i64 [ %from, %entry ], [ %next, %each ]
  %column = urem i64 %i, %columns
  %x_place = getelementptr float, ptr %x, i64 %i
  %w_place = getelementptr float, ptr %w, i64 %column
  %y_place = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %x_place
  %b = load float, ptr %w_place
  %c = fadd float %a, %b
  store float %c, ptr %y_place
  %next = add i64 %i, 1
  %some = icmp slt i64 %next, %to
  br i1 %some, label %each, label %done
done:
  ret void
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCode:
    """Code of this machine: its bytes, where its functions begin, and the bytes as memory."""

    data: bytes
    functions: Mapping[str, int]
    mapped: ExecutableCode

    def address(self, name: str) -> int:
        return self.mapped.address + self.functions[name]

    def call(self, name: str, *arguments: int) -> int:
        kinds = (ctypes.c_int64,) * len(arguments)
        return int(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(self.address(name))(*arguments))


def this_target() -> CpuTarget:
    target = host_target()
    assert target is not None
    return target


@cache
def native_code(*kernels: str) -> NativeCode:
    """These kernels, and the executor for this machine."""
    target = this_target()
    compiler = ObjectCompiler(
        triple=target.llvm_triple, cpu=target.llvm_cpu, features=target.llvm_features
    )
    linked = compiler.link(executor_module(target) + "".join(kernels))
    return NativeCode(data=linked.data, functions=linked.functions, mapped=map_code(linked.data))


def address_of(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)
