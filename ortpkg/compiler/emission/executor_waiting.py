"""LLVM IR of the functions by which threads in compiled code wait, for each operating system.

The functions are ``executor.pause``, ``executor.sleep``, ``executor.awake`` and
``executor.is_stopped``. :mod:`ortpkg.compiler.machine_code.system_waiting` provides the functions
``%wait`` and ``%wake``.
"""

from __future__ import annotations

from string import Template

from ortpkg.compiler.machine_code.cpu_targets import CpuTarget

#: Functions that wait for a word to change, and that wake those waiting, for each system.
_LINUX_WAITING = """
define internal void @executor.wait(ptr %wait, ptr %word, i32 %expected, i64 %duration_ns) {
  %time = alloca { i64, i64 }
  %rest_at = getelementptr i64, ptr %time, i64 1
  %seconds = udiv i64 %duration_ns, 1000000000
  %rest = urem i64 %duration_ns, 1000000000
  store i64 %seconds, ptr %time
  store i64 %rest, ptr %rest_at
  ; FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  %ignored = call i64 (i64, ...) %wait(i64 $futex, ptr %word, i64 128, i32 %expected, ptr %time,
                                       ptr null, i64 0)
  ret void
}

define internal void @executor.wake(ptr %wake, ptr %word) {
  ; FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX
  %ignored = call i64 (i64, ...) %wake(i64 $futex, ptr %word, i64 129, i32 2147483647, ptr null,
                                       ptr null, i64 0)
  ret void
}
"""
_MACOS_WAITING = """
define internal void @executor.wait(ptr %wait, ptr %word, i32 %expected, i64 %duration_ns) {
  %value = zext i32 %expected to i64
  %duration = udiv i64 %duration_ns, 1000
  %duration_us = trunc i64 %duration to i32
  ; UL_COMPARE_AND_WAIT
  %ignored = call i32 %wait(i32 1, ptr %word, i64 %value, i32 %duration_us)
  ret void
}

define internal void @executor.wake(ptr %wake, ptr %word) {
  ; UL_COMPARE_AND_WAIT | ULF_WAKE_ALL
  %ignored = call i32 %wake(i32 257, ptr %word, i64 0)
  ret void
}
"""
_WINDOWS_WAITING = """
define internal void @executor.wait(ptr %wait, ptr %word, i32 %expected, i64 %duration_ns) {
  %compared = alloca i32
  store i32 %expected, ptr %compared
  %duration = udiv i64 %duration_ns, 1000000
  %duration_ms = trunc i64 %duration to i32
  %ignored = call win64cc i32 %wait(ptr %word, ptr %compared, i64 4, i32 %duration_ms)
  ret void
}

define internal void @executor.wake(ptr %wake, ptr %word) {
  call win64cc void %wake(ptr %word)
  ret void
}
"""
_WAITING = {"linux": _LINUX_WAITING, "macos": _MACOS_WAITING, "windows": _WINDOWS_WAITING}
_FUTEX_CALL = {"x86_64": "202", "aarch64": "98"}

_PAUSES = {
    "x86_64": """
declare void @llvm.x86.sse2.pause()
define internal void @executor.pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
""",
    "aarch64": """
declare void @llvm.aarch64.hint(i32)
define internal void @executor.pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
""",
}

#: ``executor.sleep`` sleeps until the word may have changed; it only pauses if the system has no
#: function for it.
_SLEEP = """
define internal void @executor.sleep(ptr %wait, ptr %word, i32 %expected, i64 %duration_ns) {
  %none = icmp eq ptr %wait, null
  br i1 %none, label %briefly, label %properly
briefly:
  call void @executor.pause()
  ret void
properly:
  call void @executor.wait(ptr %wait, ptr %word, i32 %expected, i64 %duration_ns)
  ret void
}

define internal void @executor.awake(ptr %wake, ptr %word) {
  %none = icmp eq ptr %wake, null
  br i1 %none, label %done, label %properly
properly:
  call void @executor.wake(ptr %wake, ptr %word)
  br label %done
done:
  ret void
}

define internal i1 @executor.is_stopped(ptr %status) alwaysinline {
  %stop = load atomic i64, ptr %status monotonic, align 8
  %failure_at = getelementptr i64, ptr %status, i64 1
  %failure = load atomic i64, ptr %failure_at monotonic, align 8
  %either = or i64 %stop, %failure
  %is_stopped = icmp ne i64 %either, 0
  ret i1 %is_stopped
}
"""


def waiting_functions(target: CpuTarget) -> str:
    """Return the waiting functions for a target, as LLVM IR."""
    text = _PAUSES[target.family] + _WAITING[target.os] + _SLEEP
    return Template(text).substitute(futex=_FUTEX_CALL[target.family])
