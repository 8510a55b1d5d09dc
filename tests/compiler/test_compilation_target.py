"""Kernels are compiled with all that the CPU of their target has."""

from __future__ import annotations

import pytest

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.emission.llvm_kernel import kernel_function
from ortpkg.compiler.loop_ir.kernel import Kernel
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.machine_code.cpu_targets import target_named


def _assembly(kernel: Kernel, target: CompilationTarget) -> str:
    text = kernel_function(kernel, "kernel", target.emission_options())
    compiler = target.compiler()
    assert compiler.link(text).data, "nothing from outside is called"
    return compiler.assembly(text)


@pytest.mark.parametrize(
    ("name", "extras", "instruction"),
    [
        ("linux-x86_64_v2", (), "pmaddwd"),
        ("linux-x86_64_v3", (), "vpmaddwd"),
        ("linux-x86_64_v4", (), "vpmaddwd"),
        ("linux-x86_64_v4", ("avx512_vnni",), "vpdpbusd"),
        ("linux-aarch64_dotprod", (), "sdot"),
        ("linux-aarch64", ("i8mm",), "usdot"),
        ("macos-arm64", (), "sdot"),
    ],
)
def test_bytes_are_multiplied_by_the_instructions_of_the_target(
    name: str, extras: tuple[str, ...], instruction: str
) -> None:
    target = CompilationTarget(cpu=target_named(name), extras=extras)
    lanes = target.cpu.vector_nbytes // 4
    b = KernelBuilder("dots")
    unsigned, signed = b.input("unsigned", Scalar.U8), b.input("signed", Scalar.I8)
    sums = b.output("sums", Scalar.I32)
    left, right = b.load(unsigned, 0, 4 * lanes), b.load(signed, 0, 4 * lanes)
    b.store(sums, 0, b.dot(b.load(sums, 0, lanes), left, right))
    assert f"\t{instruction}" in _assembly(b.kernel(), target)


@pytest.mark.parametrize(
    ("name", "extra", "instruction"),
    [
        ("linux-x86_64_v4", "avx512_bf16", "vdpbf16ps"),
        ("linux-aarch64", "bf16", "bfdot"),
        ("macos-arm64", "bf16", "bfdot"),
    ],
)
def test_bfloats_are_multiplied_by_the_instructions_of_the_target(
    name: str, extra: str, instruction: str
) -> None:
    target = CompilationTarget(cpu=target_named(name), extras=(extra,))
    assert target.cpu.bfloat_extra == extra
    lanes = target.cpu.vector_nbytes // 4
    b = KernelBuilder("dots")
    left, right = b.input("left", Scalar.BF16), b.input("right", Scalar.BF16)
    sums = b.output("sums", Scalar.F32)
    pairs = [b.load(each, 0, 2 * lanes) for each in (left, right)]
    b.store(sums, 0, b.dot(b.load(sums, 0, lanes), *pairs))
    assert f"\t{instruction}" in _assembly(b.kernel(), target)


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("linux-x86_64_v2", "pmovzxwd"),  # by its bits
        ("linux-x86_64_v3", "vcvtph2ps"),
        ("linux-aarch64", "fcvtl"),
    ],
)
def test_halves_are_widened_without_a_library(name: str, instruction: str) -> None:
    target = CompilationTarget(cpu=target_named(name))
    lanes = target.cpu.vector_nbytes // 4
    b = KernelBuilder("widen")
    halves, floats = b.input("halves", Scalar.F16), b.output("floats", Scalar.F32)
    b.store(floats, 0, b.cast(b.load(halves, 0, lanes), Scalar.F32))
    assert f"\t{instruction}" in _assembly(b.kernel(), target)
