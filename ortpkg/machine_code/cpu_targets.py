"""The CPUs that code is compiled for, and which of them a machine runs.

Imports neither numpy nor onnx: selections ask it. Features have the names of Linux's
``/proc/cpuinfo``, which other systems' probes use too. The levels of x86-64 are those of the System
V ABI for x86-64 (low-level system information, "Machine": micro-architecture levels).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from ortpkg.devices.architecture import runs_code_for
from ortpkg.devices.hardware import HardwareDevice
from ortpkg.devices.machine_probe import probe
from ortpkg.errors import UsageError, quoted
from ortpkg.names import closest

#: Provider option of LLVMExecutionProvider: name of the target to compile for.
TARGET_OPTION = "target"
#: Provider option of LLVMExecutionProvider, and its values: "bf16" is for products of rounded
#: numbers.
PRECISION_OPTION = "precision"
FULL_PRECISION, BFLOAT_PRECISION = "f32", "bf16"
_X86_64 = "x86_64"
_AARCH64 = "aarch64"


class CpuTarget(NamedTuple):
    """A family of CPUs under one operating system, as code is compiled for it.

    Attributes:
        name: ``linux-x86_64_v3``.
        os: "linux", "macos" or "windows".
        family: "x86_64" or "aarch64".
        features: what the CPU must have.
        architecture: archspec's name of the least CPU that has them, for machines of which no
            features are known; the family's where no name stands for just those.
        certain_on: where that is so, the least CPUs that have them for certain.
        llvm_triple, llvm_cpu, llvm_features: the same in LLVM's words. The triple is that of the
            object's format, ELF everywhere; what differs between systems is in the code.
        vector_nbytes, register_count: of its vector registers.
        l1_nbytes, l2_nbytes: data caches of a core, of small CPUs among those it stands for.
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
        """Without "linux-", which most are for: ``x86_64_v3``, ``macos-arm64``."""
        return self.name.removeprefix("linux-")

    @property
    def extras(self) -> Mapping[str, str]:
        """Features that code may use beyond the target's, where it says so → LLVM's words."""
        return _EXTRAS[self.family]

    @property
    def bfloat_extra(self) -> str | None:
        """The extra feature that multiplies bfloat16; None where code for the target has none."""
        if self.family == _AARCH64:
            return "bf16"
        return "avx512_bf16" if "avx512f" in self.features else None

    def llvm_features_with(self, extras: Collection[str]) -> tuple[str, ...]:
        """LLVM's features for code that uses these extras. UsageError for an unknown one."""
        return (*self.llvm_features, *(_llvm_extra(self, each) for each in extras))


_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
#: cpuinfo has the AVX family only where the system saves its registers: OSXSAVE is implied.
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ELF_X86_64 = "x86_64-unknown-linux-gnu"
_ELF_AARCH64 = "aarch64-unknown-linux-gnu"
#: macOS, Windows and Android keep register x18 for themselves.
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


#: Every target; those that ask more of a CPU first, so that the first that runs is the nearest.
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
    """The target of that name. UsageError, with the known names, where there is none."""
    if (found := _BY_NAME.get(name)) is not None:
        return found
    meant = closest(name, _BY_NAME)
    hint = f"; did you mean {meant}?" if meant else f"; known are {', '.join(_BY_NAME)}"
    raise UsageError(f"there is no target {quoted(name)}{hint}")


def reason_against(
    target: CpuTarget, cpu: HardwareDevice, os: str, extras: Collection[str] = ()
) -> str | None:
    """Why a CPU under an operating system does not run a target's code, None where it does.

    Args:
        target: that the code was compiled for.
        cpu: of the machine.
        os: "linux", "macos" or "windows".
        extras: features beyond those of the target that the code uses.

    Returns:
        A sentence's end that names the system, or every feature that is missing: ``the CPU lacks
        avx512f, avx512bw``. Of a CPU whose features are not all told, those count too that its
        architecture has for certain.
    """
    if os != target.os:
        return f"it is for {target.os}, and this is {quoted(os)}"
    if unknown := [each for each in extras if each not in target.extras]:
        return f"it needs {quoted(unknown[0])}, which is no feature of {target.family} that we know"
    words = frozenset(cpu.metadata.get("instruction_sets", "").split())
    missing = [each for each in (*target.features, *extras) if each not in words]
    if missing and not _tells_all(words):
        known = _features_by_architecture(cpu)
        missing = [each for each in missing if each not in known]
    return f"the CPU lacks {', '.join(missing)}" if missing else None


def targets_of(cpu: HardwareDevice, os: str) -> tuple[CpuTarget, ...]:
    """The targets whose code a CPU runs under an operating system, nearest first."""
    return tuple(target for target in TARGETS if reason_against(target, cpu, os) is None)


def extras_of(target: CpuTarget, cpu: HardwareDevice) -> tuple[str, ...]:
    """What the CPU has beyond the target that code may use where it says so."""
    words = frozenset(cpu.metadata.get("instruction_sets", "").split())
    return tuple(each for each in target.extras if each in words and each not in target.features)


@cache
def host_target() -> CpuTarget | None:
    """The target nearest to this machine's CPU; None where code can be compiled for none of it."""
    return next(iter(targets_of(*_this_machine())), None)


@cache
def reason_against_this_machine(target: CpuTarget, extras: tuple[str, ...] = ()) -> str | None:
    """:func:`reason_against` for the CPU of this machine."""
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


def _tells_all(words: Collection[str]) -> bool:
    """Whether these are all the features of a CPU: Linux's list begins with its floating point.

    Windows tells a few by number, macOS none on Apple's CPUs, profiles what matters.
    """
    return "fpu" in words or "fp" in words


def _features_by_architecture(cpu: HardwareDevice) -> frozenset[str]:
    """Features of every target that the CPU's architecture alone says it runs."""
    name = cpu.architecture
    return frozenset(
        feature
        for target in TARGETS
        if name
        and any(runs_code_for(name, each) for each in target.certain_on or (target.architecture,))
        for feature in target.features
    )
