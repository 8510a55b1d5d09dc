"""NVIDIA's libraries: found wherever Python's path has them, loaded, and named where missing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.providers.nvidia_libraries import (
    MissingLibraries,
    cuda_release_of,
    libraries_of_cuda,
    nvidia_fingerprint,
    prepare_nvidia_libraries,
)

#: Some library that loads: which one does not matter.
_LIBRARY = next((Path(np.__file__).parent / "random").glob("_bounded_integers*"))
_WINDOWS_PARTS = ("cudnn_", "cudnn64")

linux = pytest.mark.skipif(sys.platform != "linux", reason="the loader's names are Linux's")


def _install(site: Path, *file_names: str, component: str = "cu13") -> None:
    folder = site / "nvidia" / component / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    for name in file_names:
        shutil.copyfile(_LIBRARY, folder / name)


def _onnxruntime(prepare: Any = lambda: None, *, cuda_version: str = "13.0") -> Any:
    return SimpleNamespace(cuda_version=cuda_version, preload_dlls=prepare)


@linux
def test_libraries_of_wheels_anywhere_on_the_path_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [library.file_name for library in libraries_of_cuda(13)]
    _install(tmp_path / "one", *names[:-1])
    _install(tmp_path / "other", names[-1], component="cudnn")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "one"), str(tmp_path / "other")])

    assert prepare_nvidia_libraries(_onnxruntime()) is None
    mapped = Path("/proc/self/maps").read_text()
    assert all(f"/{name}\n" in mapped for name in names)


@linux
def test_what_is_missing_is_named_with_the_wheel_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [library.file_name for library in libraries_of_cuda(14)]
    _install(tmp_path, *(name for name in names if "cudnn" not in name), component="cu14")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    missing = prepare_nvidia_libraries(_onnxruntime(cuda_version="14.1"))

    assert str(missing) == "CUDA 14's cuDNN 9 is missing: pip install nvidia-cudnn-cu14"
    assert missing is not None
    assert missing.needed.libraries == ()  # onnxruntime loads it once a kernel asks for it


def test_several_that_are_missing_make_one_sentence() -> None:
    libraries = [
        library for library in libraries_of_cuda(12) if library.product in {"cuBLAS", "cuRAND"}
    ]
    one, two = libraries
    assert str(MissingLibraries(12, (one, two))) == (
        "CUDA 12's cuBLAS and cuRAND are missing: pip install nvidia-cublas-cu12 nvidia-curand-cu12"
    )


def test_a_damaged_library_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia/cublas/lib").mkdir(parents=True)
    (tmp_path / "nvidia/cublas/lib/libcublas.so.77").write_bytes(b"no library")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    missing = prepare_nvidia_libraries(_onnxruntime(cuda_version="77"))

    assert missing is not None
    assert "cuBLAS" in [library.product for library in missing.libraries]


def test_onnxruntimes_own_function_is_called_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    calls = []

    def prepare() -> None:
        calls.append(1)
        print("Failed to load libcublasLt.so.13")
        raise RuntimeError("no directory")

    prepare_nvidia_libraries(_onnxruntime(prepare))

    assert calls == [1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cuda_version", ["", "x", "11.8"])
def test_nothing_is_prepared_for_another_build(cuda_version: str) -> None:
    def prepare() -> None:
        pytest.fail("this build has no use for it")

    assert prepare_nvidia_libraries(_onnxruntime(prepare, cuda_version=cuda_version)) is None


@pytest.mark.parametrize(
    ("text", "release"), [("13.0", 13), ("12.8", 12), ("", None), (None, None), ("99999", None)]
)
def test_the_release_of_cuda_is_that_of_the_build(text: str | None, release: int | None) -> None:
    assert cuda_release_of(SimpleNamespace(cuda_version=text)) == release
    assert cuda_release_of(SimpleNamespace()) is None


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_the_libraries_are_those_that_onnxruntime_loads(platform: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    listed = getattr(onnxruntime, "_get_nvidia_dll_paths", None)
    if listed is None or onnxruntime.cuda_version:
        pytest.skip("this release of onnxruntime has no such list for CUDA 12")

    theirs = {path[-1] for path in listed(platform == "win32")}
    own = {library.file_name for library in libraries_of_cuda(12, platform)}

    assert own <= theirs
    assert all(name.startswith(_WINDOWS_PARTS) for name in theirs - own)


@linux
def test_a_wheel_installed_later_and_another_choice_of_gpus_are_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    before = nvidia_fingerprint()
    _install(tmp_path, "libcublas.so.13")
    installed = nvidia_fingerprint()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")

    assert before != installed
    assert installed != nvidia_fingerprint()
