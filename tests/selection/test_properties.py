"""Properties of selection on machines and packages that hypothesis makes up."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.policies import POLICIES
from ortpkg.selection.selector import select_variant
from ortpkg.selection.verdict import ReasonCode, Selection

_EPS = (CPU_EP, OPENVINO_EP, "CUDAExecutionProvider", "QNNExecutionProvider", "PluginExecutionProvider")
_RATINGS = tuple(rating.value for rating in CompiledModelCompatibility)

_hardware = st.builds(
    HardwareDevice,
    type=st.sampled_from(DeviceType),
    name=st.sampled_from(("a", "b")),
    is_discrete=st.sampled_from((True, False, None)),
    memory_nbytes=st.sampled_from((None, 1 << 30, 1 << 34)),
)
_ep_devices = st.builds(
    EpDevice,
    ep_name=st.sampled_from(_EPS),
    device=st.none() | _hardware,
    backend=st.sampled_from(("embedded", "openvino", "onnxruntime", "plugin")),
)
_constraints = st.builds(
    Constraints,
    ep=st.none() | st.sampled_from(_EPS),
    device=st.none() | st.sampled_from(("cpu", "gpu", "npu", "weird")),
    ep_compatibility_info=st.none() | st.sampled_from((*_RATINGS, "raises")),
)
_ROOT = Path("package").absolute()


def _component(constraints: list[Constraints]) -> ComponentInfo:
    variants = tuple(
        VariantInfo(name=f"v{i}", component_name="m", directory=_ROOT, model_path=None, constraints=found)
        for i, found in enumerate(constraints)
    )
    return ComponentInfo(name="m", directory=_ROOT, variants=variants)


def _rate(_ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
    if info == "raises":
        raise RuntimeError(info)
    return CompiledModelCompatibility(info)


def _select(component: ComponentInfo, ep_devices: list[EpDevice], policy: str, device: str | None) -> Selection:
    hardware = [ep_device.device for ep_device in ep_devices if ep_device.device is not None]
    # The hardware list is what the system says; its order is the system's and not part of what is shuffled.
    hardware.sort(key=repr)
    return select_variant(component, ep_devices, hardware=hardware, compatibility=_rate, policy=policy, device=device)


def _given(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=150, deadline=None)(
        given(
            constraints=st.lists(_constraints, max_size=5),
            ep_devices=st.lists(_ep_devices, max_size=5),
            policy=st.sampled_from(sorted(POLICIES)),
            device=st.none() | st.sampled_from(("cpu", "gpu", "npu")),
            seed=st.integers(0, 1 << 16),
        )(test)
    )


@pytest.mark.requirement("K12")
@_given
def test_the_order_of_discovery_never_changes_the_choice(
    constraints: list[Constraints], ep_devices: list[EpDevice], policy: str, device: str | None, seed: int
) -> None:
    component = _component(constraints)
    shuffled = random.Random(seed).sample(ep_devices, len(ep_devices))

    assert _select(component, ep_devices, policy, device) == _select(component, shuffled, policy, device)


@_given
def test_removing_a_rejected_variant_never_changes_the_choice(
    constraints: list[Constraints], ep_devices: list[EpDevice], policy: str, device: str | None, seed: int
) -> None:
    component = _component(constraints)
    selection = _select(component, ep_devices, policy, device)
    eligible = {verdict.variant.name for verdict in selection.verdicts if verdict.is_eligible}
    rejected = [variant for variant in component.variants if variant.name not in eligible]
    removed = random.Random(seed).sample(rejected, min(len(rejected), 2))
    kept = tuple(variant for variant in component.variants if variant not in removed)

    again = _select(ComponentInfo(name="m", directory=_ROOT, variants=kept), ep_devices, policy, device)

    assert (again.best and (again.best.variant, again.best.ep_device)) == (
        selection.best and (selection.best.variant, selection.best.ep_device)
    )


@_given
def test_the_choice_is_the_best_of_the_written_order(
    constraints: list[Constraints], ep_devices: list[EpDevice], policy: str, device: str | None, seed: int
) -> None:
    selection = _select(_component(constraints), ep_devices, policy, device)
    ranks = [verdict.rank for verdict in selection.verdicts if verdict.rank is not None]

    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert (selection.best is None) == (not ranks)
    if selection.best is not None:
        assert selection.best.rank == min(ranks)


@_given
def test_every_variant_has_a_verdict_on_every_ep_device_or_says_that_its_ep_is_missing(
    constraints: list[Constraints], ep_devices: list[EpDevice], policy: str, device: str | None, seed: int
) -> None:
    component = _component(constraints)
    selection = _select(component, ep_devices, policy, device)

    for variant in component.variants:
        own = [verdict for verdict in selection.verdicts if verdict.variant is variant]
        if own[0].code is ReasonCode.EP_NOT_AVAILABLE:
            assert len(own) == 1
        else:
            assert len(own) == len(ep_devices)
        assert all(verdict.reason for verdict in own)
