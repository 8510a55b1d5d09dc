"""Versions are compared by what they mean."""

from __future__ import annotations

import pytest

from ortpkg.foundations.versions import (
    is_outside,
    is_same_minor,
    is_same_version,
    is_within_release,
    release_of,
    requirement_name,
)
from ortpkg.machine.hardware import DeviceType, HardwareDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor, find_mismatch
from ortpkg.runtime.providers.compatibility_info import rate_compatibility
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility


@pytest.mark.parametrize(
    ("first", "second", "same", "same_minor"),
    [
        ("1.31.1", "1.31.1", True, True),
        ("1.0", "1.0.0", True, True),
        ("2026.04", "2026.4.1", False, True),
        ("1.31.0rc1", "1.31", False, True),
        ("1.31.1+cu12", "1.31.1", False, True),
        ("1.3", "1.30", False, False),
        ("1", "1.0", True, True),
        ("1!1.0", "1.0", False, False),
        ("R512", "R512", True, True),
        ("R512", "512", False, False),
        ("", "1.0", False, False),
    ],
)
def test_versions_are_compared_by_their_meaning(
    first: str, second: str, *, same: bool, same_minor: bool
) -> None:
    assert is_same_version(first, second) is is_same_version(second, first) is same
    assert is_same_minor(first, second) is is_same_minor(second, first) is same_minor


def test_a_release_is_found_in_the_words_of_an_sdk() -> None:
    assert release_of("onnxruntime 1.31.1") == "1.31.1"
    assert release_of("2026.4.1-22982-e213a147257") == "2026.4.1"
    assert release_of("none") == ""


@pytest.mark.parametrize(
    ("version", "release", "is_within"),
    [
        ("1.31", "1.31.0", True),
        ("1.31.0", "1.31", True),
        ("2026.4.1-22982-e213a147257", "2026.04", True),
        ("2026.41", "2026.4", False),
        ("1.31", "1.31.1", False),
        ("1.31", "", False),
        ("", "1.31", False),
        ("", "", False),
    ],
)
def test_a_version_is_within_a_release_however_it_is_written(
    version: str, release: str, *, is_within: bool
) -> None:
    assert is_within_release(version, release) is is_within


def test_what_a_requirement_allows() -> None:
    assert is_outside("2023.3.0", "openvino>=2024.4")
    assert not is_outside("2025.0.0rc1", "openvino>=2024.4")
    assert not is_outside("no version", "openvino>=2024.4")
    assert not is_outside("1.0", "no requirement at all")
    assert requirement_name("Jsonschema_RS>=0.33") == "jsonschema-rs"
    assert requirement_name("!") == ""


def test_a_text_that_no_requirement_is_as_long_as_is_none() -> None:
    assert requirement_name("a" * 300 + ">=1") == ""
    assert not is_outside("1.0", "a>=2" + "," + ">=2," * 100 + ">=2")


@pytest.mark.requirement("K10")
@pytest.mark.parametrize(
    ("recorded", "rating"),
    [
        ("1.31.1", CompiledModelCompatibility.OPTIMAL),
        ("1.31.1.0", CompiledModelCompatibility.OPTIMAL),
        ("1.31", CompiledModelCompatibility.PREFER_RECOMPILATION),
        ("1.031.0", CompiledModelCompatibility.PREFER_RECOMPILATION),
        ("1.3.1", CompiledModelCompatibility.UNSUPPORTED),
    ],
)
def test_the_sdk_of_a_compiled_context_is_compared_as_a_version(
    recorded: str, rating: CompiledModelCompatibility
) -> None:
    device = HardwareDevice(type=DeviceType.CPU, name="CPU", architecture="x86_64")
    info = f"onnxruntime;sdk={recorded};device=CPU;architecture=x86_64"
    assert (
        rate_compatibility(
            [device], info, backend="onnxruntime", version="1.31.1", takes_patches=True
        )
        is rating
    )


@pytest.mark.requirement("E40")
def test_a_context_of_the_same_driver_written_differently_is_none_of_another() -> None:
    def descriptor(driver: str) -> ContextDescriptor:
        return ContextDescriptor(ep="Acme", sdk_version="1.0", device="NPU", driver_version=driver)

    assert find_mismatch(descriptor("7.0"), descriptor("7.0.0")) is None
    mismatch = find_mismatch(descriptor("7.0"), descriptor("7.1"))
    assert str(mismatch) == "driver version was '7.0', here it is '7.1'"
