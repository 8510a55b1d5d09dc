"""The targets whose code this machine runs, for tests of schedules."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.schedules.machine_model import MachineModel


@dataclass(frozen=True, slots=True)
class NativeTarget:
    """A CPU in LLVM's words, and what schedules know of it."""

    cpu: str
    features: tuple[str, ...]
    model: MachineModel

    def __str__(self) -> str:
        return self.cpu


V2 = NativeTarget("x86-64-v2", (), MachineModel(vector_nbytes=16, register_count=16, has_fma=False))
V3 = NativeTarget("x86-64-v3", (), MachineModel(vector_nbytes=32, register_count=16))
V4 = NativeTarget(
    "x86-64-v4", ("-prefer-256-bit",), MachineModel(vector_nbytes=64, register_count=32)
)
#: Where the CPU has dot products of bytes.
VNNI = NativeTarget(
    "x86-64-v4",
    ("+avx512vnni",),
    MachineModel(vector_nbytes=64, register_count=32, features=frozenset({"avx512vnni"})),
)
#: All that x86-64 CPUs of today run.
NATIVE_TARGETS = (V4, V3, V2)
#: Of an AArch64 CPU, whose code is compiled and not run.
AARCH64 = MachineModel(vector_nbytes=16, register_count=32)
