"""Programs for AArch64 Linux made of linked code alone, and run by an emulator.

A program is one ELF file: the code, two functions in machine words, and memory at a fixed address,
which is written out when the program ends. No C library is needed, nor a compiler for AArch64.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from ortpkg.compiler.emission.elf_object import LinkedCode

#: The emulator; "" where these tests are not to run.
EMULATOR = os.environ.get("ORTPKG_TEST_QEMU_AARCH64", "")

_PAGE = 0x1000
_CODE = 0x400000
#: ``long syscall(long number, ...)``, as the C library has it.
SYSCALL = 0x10000000
#: ``long start_thread(long flags, ptr stack_end, ptr function, i64 first, i64 second)``.
START_THREAD = SYSCALL + 64
#: Memory of the program, which a test fills and gets back.
MEMORY = 0x20000000
#: Where threads have their stacks, behind what the file has.
STACKS = 0x30000000
STACK_NBYTES = 1 << 16
#: CLONE_VM, _FS, _FILES, _SIGHAND, _THREAD, _SYSVSEM: a thread.
THREAD_FLAGS = 0x50F00

_MOVE_TO = {  # mov xD, xS
    (8, 0): 0xAA0003E8,
    (0, 1): 0xAA0103E0,
    (1, 2): 0xAA0203E1,
    (2, 3): 0xAA0303E2,
    (3, 4): 0xAA0403E3,
    (4, 5): 0xAA0503E4,
    (5, 6): 0xAA0603E5,
    (9, 2): 0xAA0203E9,
    (10, 3): 0xAA0303EA,
    (11, 4): 0xAA0403EB,
    (0, 10): 0xAA0A03E0,
    (1, 11): 0xAA0B03E1,
}
_ZERO_X0, _ZERO_X2, _ZERO_X3, _ZERO_X4 = 0xAA1F03E0, 0xAA1F03E2, 0xAA1F03E3, 0xAA1F03E4
_SVC, _RET, _BLR_X9, _CBZ_X0_TWO_ON = 0xD4000001, 0xD65F03C0, 0xD63F0120, 0xB4000040
_X8_IS_CLONE, _X8_IS_EXIT = 0xD2801B88, 0xD2800BA8
_SYSCALL_WORDS = [
    *(_MOVE_TO[pair] for pair in ((8, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6))),
    _SVC,
    _RET,
]
_START_THREAD_WORDS = [
    *(_MOVE_TO[pair] for pair in ((9, 2), (10, 3), (11, 4))),
    *(_ZERO_X2, _ZERO_X3, _ZERO_X4, _X8_IS_CLONE, _SVC, _CBZ_X0_TWO_ON, _RET),
    *(_MOVE_TO[pair] for pair in ((0, 10), (1, 11))),
    *(_BLR_X9, _X8_IS_EXIT, _ZERO_X0, _SVC),
]


def run_process(code: LinkedCode, memory: bytes, folder: Path, *, cpu: str = "max") -> bytes:
    """Runs the code's ``main``, which gets nothing and returns nothing, by the emulator.

    ``main`` ends with a call of ``exit``; before it, it writes its memory to the standard output.

    Args:
        code: with the function ``main``.
        memory: what lies at :data:`MEMORY` when it begins.
        folder: for the program.
        cpu: the emulator's word for a CPU.
    """
    program = folder / "program"
    program.write_bytes(_elf_file(code, memory))
    program.chmod(0o700)
    done = subprocess.run(
        [EMULATOR, "-cpu", cpu, str(program)], capture_output=True, timeout=240, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout) == len(memory)
    return done.stdout


#: What ``main`` ends with: writes so many bytes of memory, and exits.
END_OF_MAIN = f"""
define internal void @end_process(i64 %nbytes) noreturn {{
  %calls = inttoptr i64 {SYSCALL} to ptr
  br label %more
more:
  %done = phi i64 [ 0, %0 ], [ %done_now, %more ]
  %from = add i64 %done, {MEMORY}
  %left = sub i64 %nbytes, %done
  %written = call i64 (i64, ...) %calls(i64 64, i64 1, i64 %from, i64 %left)
  %done_now = add i64 %done, %written
  %again = icmp slt i64 %done_now, %nbytes
  br i1 %again, label %more, label %exit
exit:
  %never = call i64 (i64, ...) %calls(i64 94, i64 0)
  unreachable
}}
"""


def _elf_file(code: LinkedCode, memory: bytes) -> bytes:
    calls = struct.pack(f"<{len(_SYSCALL_WORDS)}I", *_SYSCALL_WORDS).ljust(64, b"\0")
    calls += struct.pack(f"<{len(_START_THREAD_WORDS)}I", *_START_THREAD_WORDS)
    readable, writable, runnable = 4, 2, 1
    segments = (
        (_CODE, code.data, len(code.data), readable | runnable),
        (SYSCALL, calls, len(calls), readable | runnable),
        (MEMORY, memory, len(memory), readable | writable),
        (STACKS, b"", 16 * STACK_NBYTES, readable | writable),
    )
    entry = _CODE + code.functions["main"]
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack(
        "<HHIQQQIHHHHHH", 2, 183, 1, entry, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    table, content = b"", b""
    for address, data, nbytes, leave in segments:
        offset = _PAGE + len(content)
        table += struct.pack(
            "<IIQQQQQQ", 1, leave, offset, address, address, len(data), nbytes, _PAGE
        )
        content += data + bytes(-len(data) % _PAGE)
    return (header + table).ljust(_PAGE, b"\0") + content
