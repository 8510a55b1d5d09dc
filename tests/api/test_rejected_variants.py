"""A rejected variant changes nothing for the others, in all of ``ModelPackage.select``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ortpkg
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers.ep_factory import ONLY_CONTEXTS
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.choosing import package_selection
from ortpkg.selection.matching.verdict import ReasonCode, Selection

_GB = 10**9
_CPU = HardwareDevice(
    type=DeviceType.CPU,
    name="CPU",
    memory_nbytes=64 * _GB,
    free_memory_nbytes=60 * _GB,
    architecture="haswell",
)
_GPU = HardwareDevice(
    type=DeviceType.GPU,
    name="RTX",
    vendor="NVIDIA",
    vendor_id=0x10DE,
    is_discrete=True,
    memory_nbytes=24 * _GB,
)
_OFFERS = (
    EpDevice(ep_name="CPUExecutionProvider", device=_CPU),
    EpDevice(ep_name="CUDAExecutionProvider", device=_GPU, backend="onnxruntime"),
)
_PLUGINS = {
    "ZedExecutionProvider": EpDevice(ep_name="ZedExecutionProvider", device=_GPU, backend="zed"),
    "LLVMExecutionProvider": EpDevice(
        ep_name="LLVMExecutionProvider", device=_CPU, backend="llvm", ep_metadata=ONLY_CONTEXTS
    ),
}


def _offer(free_nbytes: int | None, named: Collection[str]) -> MachineOffer:
    """What is offered where these EPs are named, and the GPU tells so much free memory."""
    gpu = replace(_GPU, free_memory_nbytes=free_nbytes)
    offers = (*_OFFERS, *(offer for name, offer in _PLUGINS.items() if name in named))
    placed = tuple(replace(each, device=gpu if each.device == _GPU else _CPU) for each in offers)
    return MachineOffer(machine=Machine(os="linux", hardware=(_CPU, gpu)), ep_devices=placed)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose GPU tells free memory only when asked, and some EPs only when named."""
    monkeypatch.setattr(package_selection, "this_machine", lambda named=(): _offer(None, named))
    monkeypatch.setattr(package_selection, "with_free_memory", lambda machine: machine)
    monkeypatch.setattr(
        package_selection, "discover_ep_devices", lambda _machine, named=(): _offer(_GB, named)
    )


def _package(root: Path, variants: Sequence[dict[str, Any]]) -> ortpkg.ModelPackage:
    shutil.rmtree(root, ignore_errors=True)
    folder = root / "models" / "m"
    for stated in variants:
        (folder / stated["name"]).mkdir(parents=True)
        (folder / stated["name"] / "model.onnx").write_bytes(bytes(stated.get("size", 0)))
    entries = {
        stated["name"]: {
            "constraints": {
                key: stated[key] for key in ("ep", "device", "architecture") if stated.get(key)
            },
            "metadata": {"peak_memory_nbytes": stated["peak"]}
            if stated.get("peak") is not None
            else {},
        }
        for stated in variants
    }
    (folder / "metadata.json").write_text(json.dumps({"model_variants": entries}), encoding="utf-8")
    (root / "manifest.json").write_text('{"model_name": "p"}', encoding="utf-8")
    return ortpkg.ModelPackage(root)


def _choice(selection: Selection) -> tuple[str, str, str | None] | None:
    best = selection.best
    if best is None or best.ep_device is None:
        return None
    device = best.ep_device.device
    return best.variant.name, best.ep_device.ep_name, None if device is None else device.name


@pytest.mark.usefixtures("machine")
def test_a_rejected_giant_does_not_make_the_others_be_judged_by_what_is_free(
    tmp_path: Path,
) -> None:
    """What is free is asked because of the giant, and counts for it."""
    giant = {"name": "giant", "ep": "cuda", "device": "gpu", "peak": 23 * _GB}
    others = [
        {"name": "middle", "ep": "cuda", "device": "gpu", "peak": 5 * _GB},
        {"name": "cpu", "ep": "cpu", "device": "cpu", "peak": _GB},
    ]

    with_giant = _package(tmp_path / "a", [giant, *others]).select()
    without = _package(tmp_path / "b", others).select()

    rejection = next(
        each
        for each in with_giant.verdicts
        if each.variant.name == "giant" and "free" in each.reason
    )
    assert rejection.code is ReasonCode.MEMORY_TOO_SMALL
    assert _choice(with_giant) == _choice(without) == ("middle", "CUDAExecutionProvider", "RTX")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("plugin", _PLUGINS)
def test_a_variant_for_any_ep_is_not_given_a_plugin_that_another_variant_names(
    tmp_path: Path, plugin: str
) -> None:
    other = {"name": "other", "ep": plugin, "device": "npu"}  # rejected: there is no NPU
    plain = {"name": "any"}

    both = _package(tmp_path / "a", [other, plain]).select()
    alone = _package(tmp_path / "b", [plain]).select()
    asked = _package(tmp_path / "b", [plain]).select(ep=plugin)

    assert _choice(both) == _choice(alone)
    found = _choice(asked)
    assert found is not None
    assert found[:2] == ("any", plugin)
    passed_over = [
        each
        for each in both.verdicts
        if each.variant.name == "any" and each.code == "EP_NOT_REQUESTED"
    ]
    assert [each.reason for each in passed_over] == [
        f"it names no execution provider, and {plugin} is used only where it is named"
    ]


_stated = st.fixed_dictionaries(
    {
        "ep": st.sampled_from((None, "cpu", "cuda", "CUDAExecutionProvider", *_PLUGINS)),
        "device": st.sampled_from((None, "cpu", "gpu", "npu")),
        "architecture": st.sampled_from((None, "haswell", "zen4")),
        "peak": st.sampled_from((None, 0, _GB, 5 * _GB, 7 * _GB, 23 * _GB, 70 * _GB)),
        "size": st.sampled_from((0, 3000)),
    }
)
_wishes = st.fixed_dictionaries(
    {},
    optional={
        "ep": st.sampled_from(("cpu", "cuda")),
        "device": st.sampled_from(("cpu", "gpu")),
        "policy": st.sampled_from(("default", "prefer-cpu", "measured")),
        "max_size": st.just(2000),
        "max_memory": st.just("6GB"),
        "strict_facts": st.booleans(),
        "check_architecture": st.booleans(),
    },
)


@pytest.mark.usefixtures("machine")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(stated=st.lists(_stated, min_size=1, max_size=4), wishes=_wishes)
def test_removing_any_rejected_variant_never_changes_what_a_package_selects(
    tmp_path: Path, stated: list[dict[str, Any]], wishes: dict[str, Any]
) -> None:
    variants = [{"name": f"v{number}", **each} for number, each in enumerate(stated)]
    selection = _package(tmp_path / "all", variants).select(**wishes)
    eligible = {verdict.variant.name for verdict in selection.verdicts if verdict.is_eligible}

    for rejected in (each for each in variants if each["name"] not in eligible):
        kept = [each for each in variants if each is not rejected]
        if kept:
            assert _choice(_package(tmp_path / "rest", kept).select(**wishes)) == _choice(selection)
