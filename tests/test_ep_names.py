"""EP names: aliases, full names, suggestions."""

from __future__ import annotations

import pytest

from ortpkg.foundations.ep_names import (
    EP_ALIASES,
    KNOWN_EPS,
    ep_priority,
    is_known_ep,
    resolve_ep_name,
    suggest_ep_name,
)
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cpu", "CPUExecutionProvider"),
        ("CUDA", "CUDAExecutionProvider"),
        ("dml", "DmlExecutionProvider"),
        ("Vitis-AI", "VitisAIExecutionProvider"),
        ("cuda_execution_provider", "CUDAExecutionProvider"),
        ("openvinoexecutionprovider", "OpenVINOExecutionProvider"),
        ("QNNExecutionProvider", "QNNExecutionProvider"),
    ],
)
def test_resolves_aliases_and_full_names_in_any_case(text: str, name: str) -> None:
    assert resolve_ep_name(text) == name


def test_returns_an_unknown_name_unchanged() -> None:
    assert resolve_ep_name("My-EP") == "My-EP"
    assert not is_known_ep("My-EP")


def test_every_alias_and_implied_device_names_a_known_ep() -> None:
    assert set(EP_ALIASES.values()) | set(IMPLIED_DEVICE_TYPES) <= set(KNOWN_EPS)


def test_cpu_has_the_last_priority_and_plugins_come_before_it() -> None:
    assert max(KNOWN_EPS, key=ep_priority) == "CPUExecutionProvider"
    assert ep_priority("PluginExecutionProvider") < ep_priority("AzureExecutionProvider")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("CUDAExecutionProvidr", "CUDAExecutionProvider"),
        ("opnvino", "OpenVINOExecutionProvider"),
        ("CPUExecutorProvider", "CPUExecutionProvider"),
        ("something else", None),
        ("nope", None),  # SNPE is not near
    ],
)
def test_suggests_the_nearest_name(text: str, meant: str | None) -> None:
    assert suggest_ep_name(text) == meant


def test_suggests_plugins_that_the_caller_knows() -> None:
    assert (
        suggest_ep_name("AcmeExecutionProvidr", ("AcmeExecutionProvider",))
        == "AcmeExecutionProvider"
    )
