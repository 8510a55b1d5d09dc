"""Which options of a package take effect: by our lists, and by onnxruntime 1.31's rules."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import InvalidSessionOptionError, TrustRequiredError
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_31
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.package_info import Layout, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.reader import open_package
from ortpkg.package.trust.option_policy import (
    path_options_of,
    provider_options_of,
    session_options_of,
)
from ortpkg.package.trust.safe_options import unsafe_provider_options

_FOLDER = "session.model_external_initializers_file_folder_path"
_CONTEXT = "ep.context_file_path"
_CPU = HardwareDevice(type=DeviceType.CPU)
_QNN = EpDevice(
    ep_name="QNNExecutionProvider",
    device=HardwareDevice(type=DeviceType.NPU),
    backend="onnxruntime",
)

MakePackage = Callable[..., PackageInfo]


@pytest.fixture
def package(tmp_path: Path) -> MakePackage:
    """package(compat=..., layout=...) in a folder of the test."""
    root = tmp_path.resolve() / "p.ortpackage"
    root.mkdir()

    def make(**more: Any) -> PackageInfo:
        return PackageInfo(
            root=root, name="p", version=None, format=PackageFormat.COMPONENT, components=(), **more
        )

    return make


def _variant(
    package: PackageInfo, session: Mapping[str, str] = EMPTY, provider: Mapping[str, str] = EMPTY
) -> VariantInfo:
    return VariantInfo(
        name="v",
        component_name="c",
        directory=package.root / "v",
        model_path=package.root / "v" / "m.onnx",
        session_options=session,
        provider_options=provider,
    )


@pytest.mark.parametrize("key", PATH_SESSION_OPTIONS)
def test_a_path_in_the_package_needs_no_trust_and_becomes_absolute(
    package: MakePackage, key: str
) -> None:
    found = package()

    options = session_options_of(_variant(found, {key: "../shared/x"}), found, trust=False)

    assert options == {key: str(found.root / "shared" / "x")}


@pytest.mark.skipif(os.name == "nt", reason="symbolic links, which Windows gives to few")
@pytest.mark.parametrize("path", ["../../x", "/nowhere", "link/x"])
def test_a_path_out_of_the_package_needs_trust(package: MakePackage, path: str) -> None:
    found = package()
    (found.root / "v").mkdir()
    if path.startswith("link"):
        (found.root / "v" / "link").symlink_to(found.root.parent)
    variant = _variant(found, {_FOLDER: path})

    with pytest.raises(
        TrustRequiredError, match=f"sets the session option '{_FOLDER}', which can reach beyond"
    ):
        session_options_of(variant, found, trust=False)
    assert session_options_of(variant, found, trust=True) == {
        _FOLDER: os.path.realpath(found.root / "v" / path)
    }


def test_a_path_out_of_an_installed_package_was_allowed_when_it_was_opened(
    package: MakePackage,
) -> None:
    found = package(layout=Layout.INSTALLED)

    assert path_options_of(_variant(found, {_FOLDER: "/nowhere"}), found, trust=False) == {
        _FOLDER: os.path.realpath("/nowhere")
    }


def test_an_empty_path_is_none(package: MakePackage) -> None:
    found = package()

    assert session_options_of(_variant(found, {_FOLDER: ""}), found, trust=False) == {}


def test_strictly_an_option_on_no_list_is_refused(package: MakePackage) -> None:
    found = package()
    variant = _variant(found, {"ep.context_enable": "1"}, {"backend_path": "x.so"})

    with pytest.raises(TrustRequiredError, match=r"sets the session option 'ep\.context_enable'"):
        session_options_of(variant, found, trust=False)
    with pytest.raises(
        TrustRequiredError, match="sets the option of QNNExecutionProvider 'backend_path'"
    ):
        provider_options_of(variant, found, _QNN, trust=False)


def test_by_a_releases_rules_an_option_on_no_list_is_left_out_and_said_so(
    package: MakePackage, caplog: pytest.LogCaptureFixture
) -> None:
    found = package(compat="onnxruntime-1.31")
    variant = _variant(
        found,
        {"ep.context_enable": "1", "session.execution_mode": "parallel"},
        {"backend_path": "x.so"},
    )

    with caplog.at_level(logging.WARNING):
        session = session_options_of(variant, found, trust=False)
        provider = provider_options_of(variant, found, _QNN, trust=False)

    assert (session, provider) == ({"session.execution_mode": "ORT_PARALLEL"}, {})
    assert [record.getMessage() for record in caplog.records] == [
        (
            "variant 'v': the session option 'ep.context_enable' is left out: the package is not"
            " trusted"
        ),
        (
            "variant 'v': the option of QNNExecutionProvider 'backend_path' is left out: the"
            " package is not trusted"
        ),
    ]
    assert provider_options_of(variant, found, _QNN, trust=True) == {"backend_path": "x.so"}


def test_by_a_releases_rules_a_wrong_value_is_refused_even_of_an_option_on_no_list(
    package: MakePackage,
) -> None:
    found = package(compat="onnxruntime-1.31")

    with pytest.raises(InvalidSessionOptionError, match="a value has at most 8192 bytes"):
        session_options_of(_variant(found, {"any.key": "v" * 9000}), found, trust=False)


@pytest.mark.parametrize(
    ("ep_device", "has_own_options", "expected"),
    [
        (_QNN, False, {"htp_arch": "73"}),
        (_QNN, True, {}),
        (EpDevice(ep_name="QNNExecutionProvider", device=None), False, {}),
        (EpDevice(ep_name="CPUExecutionProvider", device=_CPU), False, {}),
    ],
)
def test_by_a_releases_rules_provider_options_count_for_devices_and_not_beside_own_options(
    package: MakePackage, ep_device: EpDevice, has_own_options: bool, expected: dict[str, str]
) -> None:
    found = package(compat="onnxruntime-1.31")
    variant = _variant(found, provider={"htp_arch": "73"})

    assert (
        provider_options_of(variant, found, ep_device, trust=False, has_own_options=has_own_options)
        == expected
    )


def test_1_32_makes_no_session_with_provider_options_for_what_has_no_devices(
    package: MakePackage,
) -> None:
    found = package(compat="onnxruntime-1.32")
    variant = _variant(found, provider={"k": "v"})
    cpu = EpDevice(ep_name="CPUExecutionProvider", device=_CPU)

    with pytest.raises(
        InvalidSessionOptionError,
        match="variant 'v' has provider options for CPUExecutionProvider, which takes none",
    ):
        provider_options_of(variant, found, cpu, trust=True)
    assert provider_options_of(variant, found, cpu, trust=True, has_own_options=True) == {}
    assert provider_options_of(_variant(found), found, cpu, trust=True) == {}


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_folder_of_weights_in_an_asset_that_leads_out_needs_trust(tmp_path: Path) -> None:
    """The release follows the link: an asset's folder in shared_assets/ may be one to anywhere."""
    uri = f"sha256:{'a' * 64}"
    payload = {"model_file": "m.onnx", "session_options": {_FOLDER: uri}}
    body = {"ep": "CPUExecutionProvider", "executor_info": {"ort": payload}}
    manifest = {"schema_version": "1.0", "components": {"c": {"variants": {"v": body}}}}
    root = tmp_path / "p.ortpackage"
    for folder in (root / "v", root / "shared_assets", tmp_path / "beside"):
        folder.mkdir(parents=True)
    (root / "shared_assets" / f"sha256-{'a' * 64}").symlink_to(tmp_path / "beside")
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    package = open_package(root, compat=ONNXRUNTIME_1_31)
    variant = package.components[0].variants[0]

    with pytest.raises(TrustRequiredError, match="sets the session option 'session"):
        path_options_of(variant, package, trust=False)
    assert path_options_of(variant, package, trust=True) == {
        _FOLDER: str((tmp_path / "beside").resolve())
    }


@pytest.mark.parametrize("segment", [".", "nothing"])
def test_the_cost_of_a_path_grows_with_its_length(package: MakePackage, segment: str) -> None:
    """A million names: squared, that is minutes.

    Links are followed wherever something can be read.
    """
    found = package()
    (found.root / "v").mkdir()
    (found.root / "v" / "out").symlink_to("..")
    variant = _variant(found, {_FOLDER: f"{segment}/" * 1_000_000 + "out"})
    start_s = time.process_time()

    (path,) = path_options_of(variant, found, trust=False).values()

    assert time.process_time() - start_s < 20
    assert (path == str(found.root)) == (segment == ".")


@pytest.mark.parametrize(
    ("ep", "options", "unsafe"),
    [
        (
            OPENVINO_EP,
            {
                "load_config": (
                    '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}, "GPU": {"NUM_STREAMS": 2}}'
                )
            },
            [],
        ),
        (None, {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'}, []),
        (
            OPENVINO_EP,
            {"load_config": '{"CPU": {"CACHE_DIR": "/home"}}', "precision": "FP32"},
            ["load_config"],
        ),
        (OPENVINO_EP, {"load_config": "/etc/passwd"}, ["load_config"]),
        (OPENVINO_EP, {"load_config": '{"CPU": 3}'}, ["load_config"]),
        (
            "CPUExecutionProvider",
            {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'},
            ["load_config"],
        ),
    ],
)
def test_a_configuration_of_openvino_needs_trust_unless_all_of_it_only_tunes(
    ep: str | None, options: dict[str, str], unsafe: list[str]
) -> None:
    assert unsafe_provider_options(options, ep) == unsafe
