"""onnxruntime's own providers, tried: what starts, what does not, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.providers import onnxruntime_probe, provider_trials
from ortpkg.runtime.providers.cuda_driver import CudaDevice, CudaDriver
from ortpkg.runtime.providers.nvidia_libraries import MissingLibraries, libraries_of_cuda
from ortpkg.runtime.providers.provider_trials import (
    provider_of_library_file,
    try_providers,
    why_left_out,
)

CUDA, TENSORRT, CPU = "CUDAExecutionProvider", "TensorrtExecutionProvider", "CPUExecutionProvider"
_LIBRARY = next((Path(np.__file__).parent / "random").glob("_bounded_integers*"))
_H100 = CudaDevice(
    name="NVIDIA H100 80GB HBM3",
    pci_address="0000:c1:00.0",
    memory_nbytes=80 << 30,
    capability=(9, 0),
)
_DRIVER = CudaDriver(release=(13, 0), devices=(_H100,), failure="")
_CUDNN = MissingLibraries(13, libraries_of_cuda(13)[-1:])
_CUBLAS = MissingLibraries(13, libraries_of_cuda(13)[1:2])

linux = pytest.mark.skipif(sys.platform != "linux", reason="the loader's sentences are Linux's")


class _Build:
    """An onnxruntime with libraries of providers, some of which start."""

    cuda_version = "13.0"
    __version__ = "1.31.1"

    def __init__(self, folder: Path, *, starts: tuple[str, ...] = (), error: str = "") -> None:
        self.__file__ = str(folder / "__init__.py")
        self._starts = starts
        self._error = error
        (folder / "capi").mkdir()
        self.folder = folder / "capi"
        self.tried: list[str] = []

    def add_library(self, name: str, *, needs: bytes = b"libm.so.6") -> None:
        """Put a provider's library there; it needs ``needs`` in place of the mathematical one."""
        data = _LIBRARY.read_bytes().replace(b"\0libm.so.6\0", b"\0" + needs + b"\0")
        ending = ".dll" if sys.platform == "win32" else ".so"
        prefix = "" if sys.platform == "win32" else "lib"
        (self.folder / f"{prefix}onnxruntime_providers_{name}{ending}").write_bytes(data)

    def SessionOptions(self) -> Any:  # noqa: N802 - onnxruntime's name
        return SimpleNamespace()

    def InferenceSession(  # noqa: N802
        self, _model: bytes, _options: Any, *, providers: list[str], enable_fallback: int
    ) -> Any:
        assert enable_fallback == 0
        self.tried += providers
        if self._error:
            raise RuntimeError(self._error)
        started = [name for name in providers if name in self._starts]
        return SimpleNamespace(get_providers=lambda: [*started, CPU])

    def preload_dlls(self) -> None:
        """Find nothing."""

    def get_available_providers(self) -> list[str]:
        return [TENSORRT, CUDA, CPU]


@pytest.fixture
def build(tmp_path: Path) -> _Build:
    onnxruntime_build = _Build(tmp_path, starts=(CUDA,))
    onnxruntime_build.add_library("cuda")
    return onnxruntime_build


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_trials, "ask_cuda_driver", lambda: _DRIVER)


@pytest.mark.usefixtures("driver")
def test_a_provider_that_starts_has_the_drivers_devices(build: _Build) -> None:
    trials = try_providers(build, build.get_available_providers())

    (device,) = trials.ep_devices
    assert (device["ep_name"], device["ep_options"]) == (CUDA, {"device_id": "0"})
    assert device["metadata"] == {"pci_bus_id": "0000:c1:00.0", "Discrete": "1"}
    assert (device["name"], device["memory_nbytes"]) == (_H100.name, 80 << 30)
    assert (trials.unusable, trials.notes) == ({}, {})
    assert build.tried == [CUDA]  # the others have no library of their own in this build


@pytest.mark.usefixtures("driver")
def test_what_only_some_kernels_need_is_noted(build: _Build) -> None:
    trials = try_providers(build, [CUDA], _CUDNN)

    assert trials.notes == {CUDA: "CUDA 13's cuDNN 9 is missing: pip install nvidia-cudnn-cu13"}
    assert trials.ep_devices


@pytest.mark.usefixtures("driver")
def test_what_the_provider_itself_needs_makes_it_unusable_and_untried(build: _Build) -> None:
    trials = try_providers(build, [CUDA], _CUBLAS)

    assert trials.unusable == {CUDA: "CUDA 13's cuBLAS is missing: pip install nvidia-cublas"}
    assert (trials.ep_devices, build.tried) == ([], [])


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (CudaDriver(release=(0, 0), devices=(), failure="no driver"), "no driver"),
        (
            _DRIVER._replace(release=(12, 8)),
            (
                "NVIDIA's driver serves CUDA 12.8, and this onnxruntime needs CUDA 13: update the"
                " driver"
            ),
        ),
    ],
)
def test_a_driver_that_cannot_serve_it_is_the_reason(
    driver: CudaDriver, reason: str, build: _Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_trials, "ask_cuda_driver", lambda: driver)

    assert try_providers(build, [CUDA]).unusable == {CUDA: reason}


@linux
@pytest.mark.usefixtures("driver")
def test_a_provider_that_onnxruntime_leaves_out_says_what_the_loader_says(build: _Build) -> None:
    build.add_library("tensorrt", needs=b"libzz.so9")

    trials = try_providers(build, [TENSORRT, CUDA])

    assert trials.unusable == {
        TENSORRT: "libzz.so9: cannot open shared object file: No such file or directory"
    }
    assert [device["ep_name"] for device in trials.ep_devices] == [CUDA]


def test_nvidias_tensorrt_is_named_with_its_wheel(build: _Build) -> None:
    said = "libnvinfer.so.10: cannot open shared object file"
    assert provider_trials._advice(build, said) == (
        ": pip install tensorrt-cu13, and put its folder tensorrt_libs on LD_LIBRARY_PATH"
    )
    assert provider_trials._advice(build, "libm.so.6: cannot open shared object file") == ""


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("no such option", "no such option"),
        (
            (
                "cuda_call.cc:154 CudaCall [with ERRTYPE = cudaError] CUDA failure 35: driver too old ;"
                " GPU=-1 ; hostname=private ; line=355 ; expr=cudaSetDevice(info_.device_id);"
            ),
            "CUDA failure 35: driver too old",
        ),
    ],
)
def test_a_provider_that_fails_says_why_without_naming_the_machine(
    error: str, reason: str, tmp_path: Path
) -> None:
    build = _Build(tmp_path, error=error)
    build.add_library("cuda")

    assert try_providers(build, [CUDA]).unusable == {CUDA: reason}


@linux
@pytest.mark.usefixtures("driver")
def test_why_a_session_of_this_process_lacks_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _Build(tmp_path)
    build.add_library("cuda", needs=b"libzz.so9")
    monkeypatch.setattr(provider_trials, "prepare_nvidia_libraries", lambda _module: _CUDNN)

    assert why_left_out(build, CUDA).startswith("libzz.so9: cannot open shared object file")
    assert why_left_out(build, CPU) == ""


@pytest.mark.parametrize(
    ("file_name", "ep_name"),
    [
        ("onnxruntime/capi/libonnxruntime_providers_cuda.so", CUDA),
        ("onnxruntime/capi/onnxruntime_providers_tensorrt.dll", TENSORRT),
        ("onnxruntime/capi/libonnxruntime_providers_shared.so", None),
        ("openvino/libs/libopenvino.so", None),
    ],
)
def test_a_library_belongs_to_a_provider(file_name: str, ep_name: str | None) -> None:
    assert provider_of_library_file(file_name) == ep_name


@pytest.mark.usefixtures("driver")
def test_the_probe_tries_what_onnxruntime_lists_no_devices_for(
    build: _Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime_probe, "load_onnxruntime", lambda: build)
    monkeypatch.setattr(onnxruntime_probe, "prepare_nvidia_libraries", lambda _module: _CUDNN)

    offers = onnxruntime_probe.list_offers()

    assert offers["providers"] == [TENSORRT, CUDA, CPU]
    assert [device["ep_name"] for device in offers["ep_devices"]] == [CUDA]
    assert list(offers["notes"]) == [CUDA]
