"""``ortpkg compile --ep llvm --target``: one model, a variant for each CPU, the right one chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.authoring.compile_wishes import CompileWishes, default_name
from ortpkg.cli.app import run as run_command_line
from ortpkg.compiler.machine_code.cpu_targets import host_target, target_named
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import CompileError, UsageError
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.machine_probe import probe
from ortpkg.machine.profiles import make_profile
from ortpkg.runtime.providers.llvm.llvm_compatibility import distance
from ortpkg.selection.matching.variant_facts import Precision, precision_of
from tests.ep_context.compiling import compiled, tree
from tests.ep_context.conftest import EXPECTED, X

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
_TARGETS = (
    "linux-x86_64_v4",
    "linux-x86_64_v3",
    "linux-x86_64_v2",
    "linux-aarch64",
    "windows-x86_64_v3",
)


def test_each_target_becomes_a_variant_and_the_nearest_is_chosen(
    package: Path, machine: Path
) -> None:
    del machine
    names = compiled(package, ep="llvm", targets=_TARGETS)
    suffixes = ("x86_64_v4", "x86_64_v3", "x86_64_v2", "aarch64", "windows-x86_64_v3")
    assert names == [f"model/plain-{each}" for each in suffixes]
    opened = ortpkg.ModelPackage(package)
    verdicts = {
        each.variant.name: each.compatibility
        for each in opened.select().verdicts
        if each.ep_device is not None and each.ep_device.backend == "llvm"
    }
    assert verdicts["plain-windows-x86_64_v3"] == "EP_UNSUPPORTED"
    best = opened.best_variant()
    nearest = host_target()
    assert nearest is not None
    assert best.name == f"plain-{nearest.short_name}"
    np.testing.assert_allclose(best.create_session().run(None, {"x": X})[0], EXPECTED, rtol=1e-5)


def test_code_that_rounds_what_it_multiplies_comes_after_all_other(
    package: Path, machine: Path
) -> None:
    del machine
    options = {"precision": "bf16"}
    compiled(package, ep="llvm", targets=("linux-x86_64_v4",), provider_options=options,
             name="rounded")  # fmt: skip
    compiled(package, ep="llvm", targets=("linux-x86_64_v2",), variants=("plain",))
    infos = {
        each.name: each.constraints.ep_compatibility_info or ""
        for each in ortpkg.ModelPackage(package).component().variants
    }
    assert "extras=avx512_bf16;precision=bf16;" in infos["rounded"]
    devices = [probe().hardware[0]]
    behind = {name: distance(devices, info, os=probe().os) for name, info in infos.items()}
    assert behind["rounded"] > behind["plain-x86_64_v2"]


def test_code_that_rounds_says_so_in_its_name_and_in_its_precision(
    package: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    words = ["compile", str(package), "--ep", "llvm", "--provider-option", "precision=bf16"]
    assert run_command_line([*words, "--target", "linux-x86_64_v4"]) == 0
    said = capsys.readouterr()
    assert "model/plain-x86_64_v4-bf16:" in said.out
    assert "ortpkg bench states how far outputs are off" in said.err
    opened = ortpkg.ModelPackage(package)
    (made,) = (each for each in opened.component().variants if each.name != "plain")
    assert precision_of(made.metadata) is Precision.FP16
    chosen = opened.select(min_precision="fp32")
    assert chosen.best is not None
    assert chosen.best.variant.name == "plain"


@pytest.mark.parametrize(
    ("source", "options", "name"),
    [
        ("cpu-fp32", {"precision": "bf16"}, "cpu-bf16-x86_64_v4"),
        ("base", {"precision": "bf16"}, "base-x86_64_v4-bf16"),
        ("cpu-fp32", {"precision": "f32"}, "cpu-fp32-x86_64_v4"),
        ("cpu-fp32", {}, "cpu-fp32-x86_64_v4"),
    ],
)
def test_a_name_by_default_says_what_code_computes_in(
    source: str, options: dict[str, str], name: str
) -> None:
    wishes = CompileWishes(ep="llvm", provider_options=options)
    assert default_name(source, "x86_64_v4", wishes) == name


def test_code_for_an_older_cpu_is_better_recompiled_and_both_are_named(
    package: Path, machine: Path
) -> None:
    del machine
    nearest = host_target()
    if nearest is target_named("linux-x86_64_v2"):
        pytest.skip("no code is for an older CPU than this one")
    compiled(package, ep="llvm", targets=("linux-x86_64_v2",))
    selection = ortpkg.ModelPackage(package).select(variant="plain-x86_64_v2")
    assert nearest is not None
    assert (
        "variant 'plain-x86_64_v2' runs, and would be better recompiled: it is for"
        f" linux-x86_64_v2, and this CPU runs {nearest.name}"
    ) in selection.warnings


@pytest.mark.parametrize(
    ("target", "best"),
    [("windows-x86_64_v3", "plain-windows-x86_64_v3"), ("linux-aarch64", "plain-aarch64")],
)
def test_another_machine_s_profile_chooses_what_that_machine_runs(
    package: Path, machine: Path, target: str, best: str
) -> None:
    del machine
    known = target_named(target)
    features = {"instruction_sets": " ".join(known.features)}
    cpu = HardwareDevice(type=DeviceType.CPU, architecture=known.family, metadata=features)
    engine = EpDevice(ep_name=CPU_EP, device=cpu, ep_vendor="ortpkg")
    profile = make_profile("board", Machine(os=known.os, hardware=(cpu,)), [engine], software={})
    compiled(package, ep="llvm", targets=("linux-aarch64", "windows-x86_64_v3"))
    selection = ortpkg.ModelPackage(package).select(profile=profile)
    assert selection.best is not None
    assert selection.best.variant.name == best


def test_equal_weights_of_targets_lie_once(package: Path, machine: Path) -> None:
    """Those of targets with vectors of one size are packed alike."""
    del machine
    targets = ("linux-x86_64_v3", "windows-x86_64_v3")
    compiled(package, ep="llvm", targets=targets, shares_weights=True)
    variants = ortpkg.ModelPackage(package).component().variants
    folders = {each.directory for each in variants if each.name != "plain"}
    assert len(folders) == 1, folders


@pytest.mark.parametrize(
    ("ep", "targets", "said"),
    [
        ("openvino", ("linux-x86_64_v3",), "take --ep llvm"),
        ("llvm", ("linux-x86_64_v33",), "there is no target 'linux-x86_64_v33'"),
    ],
)
def test_targets_that_cannot_be_are_told(
    package: Path, machine: Path, ep: str, targets: tuple[str, ...], said: str
) -> None:
    del machine
    with pytest.raises(UsageError, match=said):
        compiled(package, ep=ep, targets=targets)


def test_the_command_names_what_it_made(
    package: Path, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del machine
    command = ["compile", str(package), "--ep", "llvm", "--target", "linux-aarch64"]
    assert run_command_line(command) == 0
    assert "plain-aarch64: 1 compiled partition" in capsys.readouterr().out


def test_without_a_compiler_the_nearest_target_comes_first_whatever_was_declared_first(
    package: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del machine
    nearest = host_target()
    assert nearest is not None
    older = [each for each in _TARGETS if each.startswith(f"{nearest.os}-{nearest.family}")]
    compiled(package, ep="llvm", targets=tuple(reversed(older)))
    monkeypatch.setattr("ortpkg.runtime.providers.llvm.llvm_factory.has_compiler", lambda: False)
    selection = ortpkg.ModelPackage(package).select()
    assert selection.best is not None
    assert selection.best.variant.name == f"plain-{nearest.short_name}"
    assert selection.best.compatibility == "EP_SUPPORTED_OPTIMAL"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"timeout_s": 0.01}, "did not compile 'net.onnx': no answer within 10 ms"),
        ({"memory_limit_nbytes": 64 << 20}, "'net.onnx': it held more than 64 MiB of memory"),
    ],
)
def test_a_compile_that_passes_its_limits_leaves_the_package_as_it_was(
    package: Path, machine: Path, limits: dict[str, Any], said: str
) -> None:
    del machine
    before = tree(package)
    with pytest.raises(CompileError, match=said):
        compiled(package, ep="llvm", targets=("linux-aarch64", "linux-x86_64_v3"), **limits)
    assert tree(package) == before
