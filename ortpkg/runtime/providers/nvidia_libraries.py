"""Finds and loads NVIDIA's libraries for onnxruntime's CUDA providers, and names missing ones.

``onnxruntime-gpu`` does not contain CUDA's libraries. ``onnxruntime.preload_dlls`` loads them from
NVIDIA's wheels in the same folder as onnxruntime. This module looks everywhere on Python's path,
since an environment may have onnxruntime in one folder and NVIDIA's wheels in another.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.runtime.providers.ep_discovery.candidate_distributions import file_identity

#: Providers of onnxruntime's own builds that run on CUDA.
CUDA_EPS = frozenset(
    {
        "CUDAExecutionProvider",
        "TensorrtExecutionProvider",
        "NvTensorRTRTXExecutionProvider",
    }
)
_OLDEST_CUDA = 12
#: First release of CUDA whose wheels have no release in their names.
_FIRST_WITHOUT_SUFFIX = 13
_SEARCH_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_PATH")
#: The loader's list of the system's libraries: newer after a driver or a toolkit was installed.
_LOADER_CACHE = "/etc/ld.so.cache"


class NvidiaLibrary(NamedTuple):
    """Library that the CUDA provider needs.

    Attributes:
        product: its name for people, e.g. "cuDNN 9".
        file_name: name that the loader looks for, e.g. "libcudnn.so.9".
        distribution: wheel that brings it.
        is_needed: True if onnxruntime's library does not load without it; the others are loaded
            when a kernel needs them.
    """

    product: str
    file_name: str
    distribution: str
    is_needed: bool = True


class MissingLibraries(NamedTuple):
    """Libraries of CUDA that are neither in NVIDIA's wheels nor found by the loader.

    Attributes:
        cuda_release: major release of CUDA that onnxruntime was built for.
        libraries: missing libraries, each after those that it depends on.
    """

    cuda_release: int
    libraries: tuple[NvidiaLibrary, ...]

    @property
    def needed(self) -> MissingLibraries:
        """Missing libraries without which the provider does not load."""
        return self._replace(
            libraries=tuple(library for library in self.libraries if library.is_needed)
        )

    def __str__(self) -> str:
        """Return e.g. "CUDA 13's cuDNN 9 is missing: pip install nvidia-cudnn-cu13"."""
        products = [library.product for library in self.libraries]
        listed = " and ".join(filter(None, (", ".join(products[:-1]), products[-1])))
        wheels = " ".join(dict.fromkeys(library.distribution for library in self.libraries))
        verb = "is" if len(products) == 1 else "are"
        return f"CUDA {self.cuda_release}'s {listed} {verb} missing: pip install {wheels}"


@cache
def is_built_for_cuda() -> bool:
    """Return True if the installed onnxruntime has a CUDA provider; does not import it."""
    spec = importlib.util.find_spec("onnxruntime")
    locations = (spec.submodule_search_locations or ()) if spec is not None else ()
    pattern = "capi/*onnxruntime_providers_cuda.*"
    return any(next(Path(location).glob(pattern), None) is not None for location in locations)


def cuda_release_of(onnxruntime: Any) -> int | None:
    """Return the major release of CUDA that onnxruntime was built for; None for none."""
    text = str(getattr(onnxruntime, "cuda_version", "") or "")
    major = text.split(".", maxsplit=1)[0]
    return int(major) if major.isascii() and major.isdigit() and len(major) < 4 else None


def libraries_of_cuda(release: int, platform: str = sys.platform) -> tuple[NvidiaLibrary, ...]:
    """Return the libraries of a major release of CUDA, each after those that it depends on.

    Source: ``onnxruntime.preload_dlls`` of 1.31.1, and the extras ``cuda`` and ``cudnn`` of
    onnxruntime-gpu.
    """
    fft = 12 if release >= _FIRST_WITHOUT_SUFFIX else 11
    rows = [
        ("cuBLASLt", "cublasLt", release, "cublas", True),
        ("cuBLAS", "cublas", release, "cublas", True),
        ("NVRTC", "nvrtc", release, "cuda-nvrtc", False),
        ("cuRAND", "curand", 10, "curand", True),
        ("cuFFT", "cufft", fft, "cufft", False),
        ("runtime", "cudart", release, "cuda-runtime", True),
        ("cuDNN 9", "cudnn", 9, "cudnn", False),
    ]
    is_windows = platform == "win32"
    return tuple(
        NvidiaLibrary(
            product=product,
            file_name=f"{stem}64_{version}.dll" if is_windows else f"lib{stem}.so.{version}",
            distribution=_distribution(part, release),
            is_needed=is_needed,
        )
        for product, stem, version, part, is_needed in rows
        if not (is_windows and stem in {"nvrtc", "curand"})  # linked in there
    )


def prepare_nvidia_libraries(onnxruntime: Any) -> MissingLibraries | None:
    """Load CUDA's libraries so that onnxruntime's providers find them; return the missing ones.

    None if nothing is missing, or this onnxruntime was not built for CUDA. Prints nothing. Calling
    it again is cheap.
    """
    release = cuda_release_of(onnxruntime)
    if release is None or release < _OLDEST_CUDA or sys.platform not in {"linux", "win32"}:
        return None
    folders = wheel_folders()
    missing = [library for library in libraries_of_cuda(release) if not _load(library, folders)]
    _let_onnxruntime_prepare(onnxruntime)
    return MissingLibraries(release, tuple(missing)) if missing else None


def nvidia_fingerprint() -> dict[str, object]:
    """Return JSON that changes when :func:`prepare_nvidia_libraries` may answer otherwise."""
    return {
        "loader": file_identity(_LOADER_CACHE),
        "variables": [os.environ.get(name, "") for name in _SEARCH_VARIABLES],
        "wheels": [[str(folder), *file_identity(str(folder))] for folder in wheel_folders()],
    }


def wheel_folders() -> tuple[Path, ...]:
    """Return the folders in which NVIDIA's wheels on Python's path keep their libraries.

    That is ``nvidia/<component>/lib``, on Windows ``bin`` and the folders in it.
    """
    patterns = ("*/bin", "*/bin/*") if sys.platform == "win32" else ("*/lib",)
    roots = [Path(entry or ".", "nvidia") for entry in sys.path]
    return tuple(dict.fromkeys(_matching(roots, patterns)))


def _let_onnxruntime_prepare(onnxruntime: Any) -> None:
    """Call ``preload_dlls`` of onnxruntime, which also looks into PyTorch's folder."""
    prepare = getattr(onnxruntime, "preload_dlls", None)
    if prepare is None:
        return
    # It prints the libraries that it cannot load; ours is the only message.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        prepare()


def _load(library: NvidiaLibrary, folders: Sequence[Path]) -> bool:
    import ctypes  # a selection asks this module what changed, and loads nothing

    for path in (*(folder / library.file_name for folder in folders), Path(library.file_name)):
        if len(path.parts) > 1 and not path.is_file():
            continue
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(path))
            return True
    return False


def _matching(roots: Sequence[Path], patterns: Sequence[str]) -> Iterator[Path]:
    for root in roots:
        for pattern in patterns:
            with contextlib.suppress(OSError):
                yield from sorted(folder for folder in root.glob(pattern) if folder.is_dir())


def _distribution(part: str, release: int) -> str:
    is_plain = release >= _FIRST_WITHOUT_SUFFIX and part != "cudnn"
    return f"nvidia-{part}" if is_plain else f"nvidia-{part}-cu{release}"
