from __future__ import annotations

import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from ortpkg.compiler.machine_code.cpu_targets import (
    TARGETS,
    CpuTarget,
    extras_of,
    host_target,
    reason_against,
    target_named,
    targets_of,
)
from ortpkg.foundations.errors import UsageError
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.machine.machine_probe import probe

V2 = "fpu cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = V2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


def cpu(instruction_sets: str = "", architecture: str | None = None) -> HardwareDevice:
    return HardwareDevice(
        type=DeviceType.CPU,
        architecture=architecture,
        metadata={"instruction_sets": instruction_sets},
    )


def names(found: tuple[CpuTarget, ...]) -> list[str]:
    return [each.name for each in found]


@pytest.mark.parametrize(
    ("instruction_sets", "expected"),
    [
        ("fpu sse2", []),
        (V2, ["linux-x86_64_v2"]),
        (V3, ["linux-x86_64_v3", "linux-x86_64_v2"]),
        (V4, ["linux-x86_64_v4", "linux-x86_64_v3", "linux-x86_64_v2"]),
        (V4.replace("fma ", ""), ["linux-x86_64_v2"]),
        ("fp asimd evtstrm", ["linux-aarch64"]),
        ("fp asimd asimddp", ["linux-aarch64_dotprod", "linux-aarch64"]),
        ("", []),
    ],
)
def test_a_cpu_runs_the_targets_whose_features_it_has_nearest_first(
    instruction_sets: str, expected: list[str]
) -> None:
    assert names(targets_of(cpu(instruction_sets), "linux")) == expected


def test_where_features_are_not_all_told_the_microarchitecture_decides() -> None:
    laptop = cpu("sse4_2 avx avx2 fma f16c avx_vnni", "alderlake")
    assert names(targets_of(laptop, "linux")) == ["linux-x86_64_v3", "linux-x86_64_v2"]
    assert names(targets_of(laptop, "windows")) == ["windows-x86_64_v3"]
    assert names(targets_of(cpu("", "m2"), "macos")) == ["macos-arm64"]
    assert names(targets_of(cpu("sse4_2 avx avx2", "a new one"), "windows")) == []


def test_a_complete_list_is_believed_before_the_microarchitecture() -> None:
    hidden_by_hypervisor = cpu(V3, "skylake_avx512")
    assert names(targets_of(hidden_by_hypervisor, "linux"))[0] == "linux-x86_64_v3"


@pytest.mark.parametrize(
    ("target", "instruction_sets", "extras", "reason"),
    [
        ("linux-x86_64_v3", V4, (), None),
        ("linux-x86_64_v4", V3, (), "the CPU lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl"),
        ("linux-x86_64_v4", V4, ("avx512_vnni",), "the CPU lacks avx512_vnni"),
        ("linux-x86_64_v4", V4 + " avx512_vnni", ("avx512_vnni",), None),
        ("linux-x86_64_v4", V4, ("sve\n",), r"it needs 'sve\n', which is no feature of x86_64 that we know"),
        ("linux-aarch64", V4, (), "the CPU lacks fp, asimd"),
        ("windows-x86_64_v3", V4, (), "it is for windows, and this is 'linux'"),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_by_name(
    target: str, instruction_sets: str, extras: tuple[str, ...], reason: str | None
) -> None:
    assert reason_against(target_named(target), cpu(instruction_sets), "linux", extras) == reason


def test_an_extra_must_be_told_even_where_the_microarchitecture_decides() -> None:
    target = target_named("linux-x86_64_v3")
    laptop = cpu("sse4_2 avx avx2 fma", "alderlake")
    assert reason_against(target, laptop, "linux", ("avx_vnni",)) == "the CPU lacks avx_vnni"


@pytest.mark.parametrize(
    ("target", "instruction_sets", "architecture", "reason"),
    [
        (
            "linux-x86_64_v4",
            "sse4_2 avx avx2 fma f16c avx_vnni",
            "alderlake",
            "the CPU lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl",
        ),
        ("linux-x86_64_v4", "avx512f", "icelake", None),
        ("linux-x86_64_v3", "", "nehalem", "the CPU lacks avx, avx2, bmi1, bmi2, f16c, fma, abm, movbe"),
        ("linux-aarch64_dotprod", "", "cortex_a72", "the CPU lacks asimddp"),
        ("linux-aarch64_dotprod", "", "neoverse_n1", None),
        ("linux-aarch64_dotprod", "", "m2", None),
        ("linux-aarch64", "", "cortex_a72", None),
        ("linux-x86_64_v2", "popcnt", "cortex_a72", "the CPU lacks cx16, lahf_lm, pni, sse4_1, sse4_2, ssse3"),
    ],
)  # fmt: skip
def test_features_that_the_architecture_has_for_certain_are_not_called_missing(
    target: str, instruction_sets: str, architecture: str, reason: str | None
) -> None:
    told = cpu(instruction_sets, architecture)
    assert reason_against(target_named(target), told, "linux") == reason


def test_extras_are_what_the_cpu_has_beyond_the_target() -> None:
    target = target_named("linux-x86_64_v4")
    assert extras_of(target, cpu(V4 + " avx512_bf16 avx512_vnni sha_ni")) == (
        "avx512_vnni",
        "avx512_bf16",
    )
    dot = target_named("linux-aarch64_dotprod")
    assert extras_of(dot, cpu("fp asimd asimddp i8mm")) == ("i8mm",)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"no target 'linux-x86_64_v33'; did you mean linux-x86_64_v3\?"
    ):
        target_named("linux-x86_64_v33")
    with pytest.raises(UsageError, match=r"no target 'sparc'; known are linux-x86_64_v4, linux-"):
        target_named("sparc")
    with pytest.raises(
        UsageError, match="linux-x86_64_v2 has no extra feature 'sve'; known are avx_vnni"
    ):
        target_named("linux-x86_64_v2").llvm_features_with(["sve"])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_llvm_knows_the_words_of_each_target_and_extra(
    target: CpuTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.llvm_triple).create_target_machine(
        cpu=target.llvm_cpu, features=",".join(target.llvm_features_with(target.extras))
    )
    module = llvm.parse_assembly("define i64 @f(i64 %x) { ret i64 %x }")
    assert machine.emit_object(module)[:4] == b"\x7fELF"
    assert capfd.readouterr().err == ""  # LLVM's word for an unknown CPU or feature


def test_this_machine_runs_its_own_target() -> None:
    machine = probe()
    target = host_target()
    assert target is not None
    assert target == targets_of(machine.hardware[0], machine.os)[0]


def test_targets_are_known_without_numpy() -> None:
    code = "import ortpkg.compiler.machine_code.cpu_targets, sys; print({'numpy', 'onnx'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
