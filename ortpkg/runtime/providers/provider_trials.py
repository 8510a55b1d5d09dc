"""Tries which of onnxruntime's built-in providers start here; runs in a child process.

onnxruntime lists every provider that it was built with. A session silently goes without one whose
library or device is missing. So each provider with a library of its own is tried in a session of
one node.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.runtime.providers.cuda_driver import CudaDriver, ask_cuda_driver
from ortpkg.runtime.providers.nvidia_libraries import (
    CUDA_EPS,
    MissingLibraries,
    cuda_release_of,
    prepare_nvidia_libraries,
)
from ortpkg.runtime.providers.quiet_onnxruntime import FATAL_ONLY

#: Provider → name of its library in onnxruntime's folder, without the system's prefix and ending.
_LIBRARIES = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "tensorrt",
    "NvTensorRTRTXExecutionProvider": "nv_tensorrt_rtx",
    "MIGraphXExecutionProvider": "migraphx",
    "ROCMExecutionProvider": "rocm",
    "OpenVINOExecutionProvider": "openvino",
    "DnnlExecutionProvider": "dnnl",
    "VitisAIExecutionProvider": "vitisai",
    "CANNExecutionProvider": "cann",
    "QNNExecutionProvider": "qnn",
}
#: A library of NVIDIA's TensorRT, and the wheel that brings it; {} is the release of CUDA.
_TENSORRT, _TENSORRT_WHEEL = "libnvinfer", "tensorrt-cu{}"
_CUDA_FAILURE = re.compile(r"CUDA failure \d+: [^;]+")
#: Message of the model y = Identity(x) for one float.
SMALLEST_MODEL = bytes.fromhex(
    "08083a390a120a017812017922084964656e746974793a001201675a0f0a0178120a0a08080112040a020801"
    "620f0a0179120a0a08080112040a02080142040a001011"
)


class ProviderTrials(NamedTuple):
    """Result of trying providers.

    Attributes:
        unusable: provider → why it does not start here, and what to install.
        notes: provider that starts → libraries that it may need later.
        ep_devices: devices of providers for which onnxruntime lists none, in its form.
    """

    unusable: dict[str, str]
    notes: dict[str, str]
    ep_devices: list[dict[str, Any]]


def try_providers(
    onnxruntime: Any, names: Sequence[str], missing: MissingLibraries | None = None
) -> ProviderTrials:
    """Try each provider that has a library of its own in this build.

    Args:
        onnxruntime: the module, after :func:`prepare_nvidia_libraries`.
        names: providers that onnxruntime lists.
        missing: NVIDIA's libraries that could not be loaded.
    """
    trials = ProviderTrials(unusable={}, notes={}, ep_devices=[])
    tried = [name for name in names if _library(onnxruntime, name) is not None]
    driver = ask_cuda_driver() if CUDA_EPS.intersection(tried) else None
    for name in tried:
        cuda = driver if name in CUDA_EPS else None
        failure = "" if cuda is None else _cuda_failure(onnxruntime, cuda, missing)
        failure = failure or _failure(onnxruntime, name)
        if failure:
            trials.unusable[name] = failure
        elif cuda is not None:
            trials.ep_devices.extend(_ep_devices(name, cuda))
            if missing is not None:
                trials.notes[name] = str(missing)
    return trials


def provider_of_library_file(file_name: str) -> str | None:
    """Return the provider of a library in onnxruntime's folder; None for any other file."""
    _, _, stem = file_name.partition("onnxruntime_providers_")
    stem = stem.partition(".")[0]
    return next((name for name, library in _LIBRARIES.items() if library == stem), None)


def why_left_out(onnxruntime: Any, name: str) -> str:
    """Return why a session of this process goes without a provider; "" if there is no reason."""
    if _library(onnxruntime, name) is None:
        return ""
    if name in CUDA_EPS:
        missing = prepare_nvidia_libraries(onnxruntime)
        if failure := _cuda_failure(onnxruntime, ask_cuda_driver(), missing):
            return failure
    return _missing_file(onnxruntime, name)


def _cuda_failure(onnxruntime: Any, driver: CudaDriver, missing: MissingLibraries | None) -> str:
    """Return why no provider on CUDA can start here; "" if driver and libraries are there."""
    if driver.failure:
        return driver.failure
    release = cuda_release_of(onnxruntime)
    if release is not None and driver.release[0] < release:
        served = ".".join(map(str, driver.release))
        return (
            f"NVIDIA's driver serves CUDA {served}, and this onnxruntime needs CUDA {release}:"
            " update the driver"
        )
    needed = missing.needed if missing is not None else None
    return str(needed) if needed is not None and needed.libraries else ""


def _failure(onnxruntime: Any, name: str) -> str:
    """Make a session of one node; return why it goes without the provider, or ""."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    try:
        session = onnxruntime.InferenceSession(
            SMALLEST_MODEL, options, providers=[name], enable_fallback=0
        )
    except Exception as error:  # noqa: BLE001 - onnxruntime has an exception of its own for each status
        return _missing_file(onnxruntime, name) or _sentence(str(error))
    if name in session.get_providers():
        return ""
    return _missing_file(onnxruntime, name) or "onnxruntime leaves it out without a reason"


def _sentence(message: str) -> str:
    """Return CUDA's words in onnxruntime's message, without source lines and the host's name."""
    failure = _CUDA_FAILURE.search(message)
    return failure[0].strip() if failure else message


def _missing_file(onnxruntime: Any, name: str) -> str:
    """Load a provider's library; return the loader's message, or "" if it loads.

    Call it after onnxruntime has tried: a library that is loaded earlier is not connected to it.
    """
    library = _library(onnxruntime, name)
    assert library is not None
    shared = library.with_name(library.name.replace(_LIBRARIES[name], "shared"))
    with contextlib.suppress(OSError):
        ctypes.CDLL(str(shared), mode=ctypes.RTLD_GLOBAL)
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        message = str(error).removeprefix(f"{library}: ")
        return f"{message}{_advice(onnxruntime, message)}"
    return ""


def _advice(onnxruntime: Any, message: str) -> str:
    if not message.startswith(_TENSORRT):
        return ""
    wheel = _TENSORRT_WHEEL.format(cuda_release_of(onnxruntime) or "")
    return f": pip install {wheel}, and put its folder tensorrt_libs on LD_LIBRARY_PATH"


def _library(onnxruntime: Any, name: str) -> Path | None:
    """Return the path of a provider's library; None if this build has none for it."""
    stem = _LIBRARIES.get(name)
    module_file = getattr(onnxruntime, "__file__", None)
    if stem is None or module_file is None:
        return None
    prefix, ending = ("", ".dll") if sys.platform == "win32" else ("lib", ".so")
    path = Path(module_file).parent / "capi" / f"{prefix}onnxruntime_providers_{stem}{ending}"
    return path if path.is_file() else None


def _ep_devices(name: str, driver: CudaDriver) -> list[dict[str, Any]]:
    """Return the driver's devices for a provider on CUDA, in the form of onnxruntime's lists."""
    return [
        {
            "ep_name": name,
            "ep_vendor": "Microsoft",
            "ep_metadata": {},
            "ep_options": {"device_id": str(index)},
            "type": "gpu",
            "vendor": "NVIDIA",
            "vendor_id": 0x10DE,
            "device_id": 0,
            "name": device.name,
            "memory_nbytes": device.memory_nbytes,
            "architecture": "sm_{}{}".format(*device.capability),
            "metadata": {"pci_bus_id": device.pci_address, "Discrete": "1"},
        }
        for index, device in enumerate(driver.devices)
    ]
