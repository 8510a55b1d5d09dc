"""CPUs that code is compiled for, and which of them a machine runs.

Imports neither numpy nor onnx, since selection uses it. Features have the names of Linux's
``/proc/cpuinfo``, which other systems' probes use too. The levels of x86-64 are those of the System
V ABI for x86-64 (low-level system information, "Machine": micro-architecture levels).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import closest
from ortpkg.machine.architecture import runs_code_for
from ortpkg.machine.hardware import HardwareDevice
from ortpkg.machine.machine_probe import probe

#: Provider option of LLVMExecutionProvider: name of the target to compile for.
TARGET_OPTION = "target"
#: Provider option of LLVMExecutionProvider, and its values; "bf16" rounds operands of products.
PRECISION_OPTION = "precision"
FULL_PRECISION, BFLOAT_PRECISION = "f32", "bf16"
_X86_64 = "x86_64"
_AARCH64 = "aarch64"


class CpuTarget(NamedTuple):
    """A family of CPUs with an operating system, as a target of compilation.

    Attributes:
        name: ``linux-x86_64_v3``.
        os: "linux", "macos" or "windows".
        family: "x86_64" or "aarch64".
        features: features that the CPU must have.
        architecture: archspec's name of the least CPU that has them, for machines of unknown
            features;
            the family's name if no name stands for exactly these features.
        certain_on: in that case, the least CPUs that certainly have them.
        llvm_triple, llvm_cpu, llvm_features: the same by LLVM's names. The triple is that of the
            object's format, ELF everywhere; the code itself handles differences between systems.
        vector_nbytes, register_count: size and number of its vector registers.
        l1_nbytes, l2_nbytes: data caches of a core, of the smaller CPUs in the family.
    """

    name: str
    os: str
    family: str
    features: tuple[str, ...]
    architecture: str
    llvm_triple: str
    llvm_cpu: str
    vector_nbytes: int
    register_count: int
    l1_nbytes: int
    l2_nbytes: int
    llvm_features: tuple[str, ...] = ()
    certain_on: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        """Name without "linux-", the most common system: ``x86_64_v3``, ``macos-arm64``."""
        return self.name.removeprefix("linux-")

    @property
    def extras(self) -> Mapping[str, str]:
        """Optional features that code may use beyond the target's → LLVM's names."""
        return _EXTRAS[self.family]

    @property
    def bfloat_extra(self) -> str | None:
        """The extra feature that multiplies bfloat16; None if the target has none."""
        if self.family == _AARCH64:
            return "bf16"
        return "avx512_bf16" if "avx512f" in self.features else None

    def llvm_features_with(self, extras: Collection[str]) -> tuple[str, ...]:
        """Return LLVM's features for code that uses these extras; UsageError for an unknown one."""
        return (*self.llvm_features, *(_llvm_extra(self, extra) for extra in extras))


_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
#: cpuinfo lists the AVX family only if the system saves its registers, so OSXSAVE is implied.
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ELF_X86_64 = "x86_64-unknown-linux-gnu"
_ELF_AARCH64 = "aarch64-unknown-linux-gnu"
#: macOS, Windows and Android reserve register x18.
_KEEP_X18 = "+reserve-x18"

_EXTRAS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        _X86_64: MappingProxyType(
            {
                "avx_vnni": "+avxvnni",
                "avx512_vnni": "+avx512vnni",
                "avx512_bf16": "+avx512bf16",
                "avx512_fp16": "+avx512fp16",
                "avx512vbmi": "+avx512vbmi",
            }
        ),
        _AARCH64: MappingProxyType(
            {"asimddp": "+dotprod", "asimdhp": "+fullfp16", "i8mm": "+i8mm", "bf16": "+bf16"}
        ),
    }
)

_V2_TARGET = CpuTarget(
    name="linux-x86_64_v2",
    os="linux",
    family=_X86_64,
    features=_V2,
    architecture="x86_64_v2",
    llvm_triple=_ELF_X86_64,
    llvm_cpu="x86-64-v2",
    vector_nbytes=16,
    register_count=16,
    l1_nbytes=32 << 10,
    l2_nbytes=256 << 10,
)


def _v3(os: str) -> CpuTarget:
    return CpuTarget(
        name=f"{os}-x86_64_v3",
        os=os,
        family=_X86_64,
        features=_V3,
        architecture="x86_64_v3",
        llvm_triple=_ELF_X86_64,
        llvm_cpu="x86-64-v3",
        vector_nbytes=32,
        register_count=16,
        l1_nbytes=32 << 10,
        l2_nbytes=256 << 10,
    )


_V4_TARGET = CpuTarget(
    name="linux-x86_64_v4",
    os="linux",
    family=_X86_64,
    features=_V4,
    architecture="x86_64_v4",
    llvm_triple=_ELF_X86_64,
    llvm_cpu="x86-64-v4",
    llvm_features=("-prefer-256-bit",),
    vector_nbytes=64,
    register_count=32,
    l1_nbytes=32 << 10,
    l2_nbytes=1 << 20,
)


def _aarch64(
    name: str,
    *features: str,
    llvm_features: tuple[str, ...] = (),
    certain_on: tuple[str, ...] = (),
) -> CpuTarget:
    return CpuTarget(
        name=name,
        os="linux",
        family=_AARCH64,
        features=("fp", "asimd", *features),
        architecture=_AARCH64,
        llvm_triple=_ELF_AARCH64,
        llvm_cpu="generic",
        llvm_features=(_KEEP_X18, *llvm_features),
        vector_nbytes=16,
        register_count=32,
        l1_nbytes=32 << 10,
        l2_nbytes=256 << 10,
        certain_on=certain_on,
    )


#: All targets, the most demanding first, so that the first that runs is the nearest.
TARGETS: tuple[CpuTarget, ...] = (
    _V4_TARGET,
    _v3("linux"),
    _V2_TARGET,
    _aarch64(
        "linux-aarch64_dotprod",
        "asimddp",
        llvm_features=("+dotprod",),
        certain_on=("armv8.4a", "neoverse_n1"),
    ),
    _aarch64("linux-aarch64"),
    CpuTarget(
        name="macos-arm64",
        os="macos",
        family=_AARCH64,
        features=("fp", "asimd", "asimddp", "asimdhp"),
        architecture="m1",
        llvm_triple=_ELF_AARCH64,
        llvm_cpu="apple-m1",
        llvm_features=(_KEEP_X18,),
        vector_nbytes=16,
        register_count=32,
        l1_nbytes=64 << 10,
        l2_nbytes=4 << 20,
    ),
    _v3("windows"),
)
_BY_NAME = {target.name: target for target in TARGETS}


def target_named(name: str) -> CpuTarget:
    """Return the target of that name; UsageError with the known names if there is none."""
    if (target := _BY_NAME.get(name)) is not None:
        return target
    meant = closest(name, _BY_NAME)
    hint = f"; did you mean {meant}?" if meant else f"; known are {', '.join(_BY_NAME)}"
    raise UsageError(f"there is no target {quoted(name)}{hint}")


def reason_against(
    target: CpuTarget, cpu: HardwareDevice, os: str, extras: Collection[str] = ()
) -> str | None:
    """Return why a CPU under an operating system does not run a target's code; None if it does.

    Args:
        target: target that the code was compiled for.
        cpu: CPU of the machine.
        os: "linux", "macos" or "windows".
        extras: features beyond the target's that the code uses.

    Returns:
        The end of a sentence that names the system, or every missing feature: ``the CPU lacks
        avx512f,
        avx512bw``. If not all features of a CPU are known, those that its architecture certainly
        has
        count too.
    """
    if os != target.os:
        return f"it is for {target.os}, and this is {quoted(os)}"
    if unknown := [extra for extra in extras if extra not in target.extras]:
        return f"it needs {quoted(unknown[0])}, which is no feature of {target.family} that we know"
    words = frozenset(cpu.metadata.get("instruction_sets", "").split())
    missing = [feature for feature in (*target.features, *extras) if feature not in words]
    if missing and not _lists_all_features(words):
        certain = _features_by_architecture(cpu)
        missing = [feature for feature in missing if feature not in certain]
    return f"the CPU lacks {', '.join(missing)}" if missing else None


def targets_of(cpu: HardwareDevice, os: str) -> tuple[CpuTarget, ...]:
    """Return the targets whose code a CPU runs under an operating system, nearest first."""
    return tuple(target for target in TARGETS if reason_against(target, cpu, os) is None)


def extras_of(target: CpuTarget, cpu: HardwareDevice) -> tuple[str, ...]:
    """Return the CPU's features beyond the target's that code may use."""
    words = frozenset(cpu.metadata.get("instruction_sets", "").split())
    return tuple(
        extra for extra in target.extras if extra in words and extra not in target.features
    )


@cache
def host_target() -> CpuTarget | None:
    """Return the target nearest to this machine's CPU; None if there is none."""
    return next(iter(targets_of(*_this_machine())), None)


@cache
def reason_against_this_machine(target: CpuTarget, extras: tuple[str, ...] = ()) -> str | None:
    """Return :func:`reason_against` for this machine's CPU and system."""
    cpu, os = _this_machine()
    return reason_against(target, cpu, os, extras)


@cache
def _this_machine() -> tuple[HardwareDevice, str]:
    machine = probe()
    return machine.hardware[0], machine.os


def _llvm_extra(target: CpuTarget, extra: str) -> str:
    if extra not in target.extras:
        raise UsageError(
            f"{target.name} has no extra feature {quoted(extra)}; known are"
            f" {', '.join(target.extras)}"
        )
    return target.extras[extra]


def _lists_all_features(words: Collection[str]) -> bool:
    """Return True for a CPU's complete list; Linux's begins with the floating-point unit.

    Windows reports a few features by number, macOS none on Apple's CPUs, profiles those that
    matter.
    """
    return "fpu" in words or "fp" in words


def _features_by_architecture(cpu: HardwareDevice) -> frozenset[str]:
    """Return features of all targets that the CPU's architecture certainly runs."""
    name = cpu.architecture
    return frozenset(
        feature
        for target in TARGETS
        if name
        and any(
            runs_code_for(name, architecture)
            for architecture in target.certain_on or (target.architecture,)
        )
        for feature in target.features
    )
