"""Process-wide functions of onnxruntime's module: providers, logging, seed, threads, allocators.

Each function has onnxruntime's name and behaves as it does there, as far as this engine allows;
docs/interop.md has the table. Imports neither numpy nor onnx.
"""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import CPU_EP, RELEASE_EPS
from ortpkg.foundations.errors import (
    EpLibraryError,
    ModelError,
    UnknownExecutionProviderError,
    UsageError,
    quoted,
)
from ortpkg.foundations.version import __version__
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_registry import available_factories, find_factory
from ortpkg.runtime.providers.missing_libraries import absent_library_text
from ortpkg.runtime.providers.plugins import Plugin, register_plugin, unregister_plugin
from ortpkg.runtime.session.values.known_attributes import whole_number
from ortpkg.runtime.session.values.memory_info import OrtArenaCfg, OrtMemoryInfo
from ortpkg.runtime.session.values.onnxruntime_enums import (
    OrtCompiledModelCompatibility,
    OrtDeviceEpIncompatibilityReason,
)
from ortpkg.runtime.session.values.ort_ep_device import (
    OrtEpDevice,
    OrtHardwareDevice,
    as_ep_device,
    offered_ep_devices,
)

#: The release of onnxruntime whose Python module this one mirrors.
ONNXRUNTIME_RELEASE = "1.31"
_SEVERITIES = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_COMPATIBILITY_KEY = "ep_compatibility_info."

_lock = threading.Lock()
#: Name of the registration → plug-in.
_libraries: dict[str, Plugin] = {}
#: Threads of sessions that share them: (intra-op, inter-op); None if not set.
_global_threads: tuple[int, int] | None = None


# --- execution providers --------------------------------------------------------------------------


def get_all_providers() -> list[str]:
    """Return every execution provider of onnxruntime 1.31, by default priority, the CPU last."""
    return list(RELEASE_EPS)


def get_available_providers() -> list[str]:
    """Return the execution providers that a session can use here, by priority, the CPU last.

    They are those of ortpkg, of an installed openvino and onnxruntime, and of registered libraries.
    """
    factories = available_factories(probe().hardware, named=_registered_eps()).factories
    return list(dict.fromkeys(factory.ep_name for factory in factories))


def get_device() -> str:
    """Return the kind of device that the embedded engine computes on: "CPU"."""
    return "CPU"


def get_ep_devices() -> list[OrtEpDevice]:
    """Return the devices of this machine that the available execution providers offer."""
    return offered_ep_devices(named=_registered_eps())


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """Return the devices of this machine, including those that no execution provider offers."""
    return [OrtHardwareDevice(device) for device in probe().hardware]


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Register a plug-in that is not installed; its EP is available until it is unregistered.

    Args:
        registration_name: name for :func:`unregister_execution_provider_library`.
        library_path: ``"package.module:factory"``, as in an entry point (docs/plugins.md).

    Raises:
        EpLibraryError: the name is taken, or the path is that of a native library, which needs
            onnxruntime itself.
        ExecutionProviderError: the plug-in cannot be loaded.
        TypeError: an argument is not a string.
    """
    for text in (registration_name, library_path):
        if not isinstance(text, str):
            raise TypeError(f"a registration is two texts, not {type(text).__name__}")
    module, colon, factory = library_path.partition(":")
    if not colon or not all(
        part.isidentifier() for part in [*module.split("."), *factory.split(".")]
    ):
        raise EpLibraryError(
            f"{quoted(library_path)} is no plug-in: ortpkg's are written in Python and named"
            " package.module:factory; native libraries are loaded by onnxruntime only"
        )
    with _lock:
        if registration_name in _libraries:
            raise EpLibraryError(f"the name {quoted(registration_name)} is registered already")
        _libraries[registration_name] = register_plugin(library_path)


def unregister_execution_provider_library(registration_name: str) -> None:
    """Remove a registered plug-in; sessions that use it keep it.

    Raises:
        EpLibraryError: nothing is registered under this name.
    """
    with _lock:
        plugin = _libraries.pop(registration_name, None)
    if plugin is None:
        raise EpLibraryError(
            f"no execution provider library was registered as {quoted(registration_name)}"
        )
    unregister_plugin(plugin.name)


def get_hardware_device_ep_incompatibility_details(
    ep_name: str, device: OrtHardwareDevice
) -> dict[str, Any]:
    """Return why an EP cannot use a device.

    Returns:
        ``reasons_bitmask`` (0: it can), ``notes`` and ``error_code``.

    Raises:
        UnknownExecutionProviderError: no execution provider here has this name.
    """
    factory = find_factory(ep_name)
    reason, notes = OrtDeviceEpIncompatibilityReason.NONE, None
    if not factory.is_available():
        reason, notes = (
            OrtDeviceEpIncompatibilityReason.MISSING_DEPENDENCY,
            absent_library_text(ep_name, factory.backend),
        )
    elif all(
        offer.device != device.hardware for offer in factory.get_supported_devices(probe().hardware)
    ):
        reason, notes = (
            OrtDeviceEpIncompatibilityReason.DEVICE_INCOMPATIBLE,
            f"{ep_name} does not offer it",
        )
    return {"reasons_bitmask": int(reason), "notes": notes, "error_code": 0}


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice | EpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """Rate how well a compiled model runs on devices of one execution provider.

    Args:
        ep_devices: devices of one execution provider.
        compatibility_info: the compatibility string of the model.

    Raises:
        UsageError: no devices, or devices of several providers.
        TypeError: ``compatibility_info`` is not a string.
    """
    if not isinstance(compatibility_info, str):
        raise TypeError(f"compatibility_info is a text, not {type(compatibility_info).__name__}")
    devices = [as_ep_device(ep_device) for ep_device in ep_devices]
    names = {(device.ep_name, device.backend) for device in devices}
    if len(names) != 1:
        raise UsageError(
            f"devices of exactly one execution provider are rated together, not of {len(names)}"
        )
    ep_name, backend = names.pop()
    rating = find_factory(ep_name, backend=backend).validate_compiled_model_compatibility_info(
        [device.device for device in devices if device.device is not None], compatibility_info
    )
    return OrtCompiledModelCompatibility[rating.value]


def get_compatibility_info_from_model(model_path: str, ep_type: str) -> str | None:
    """Return a compiled model's compatibility string for an EP; None if it has none.

    Raises:
        UsageError: an empty path or name, or a file that is missing or not a model.
    """
    if not model_path or not ep_type:
        raise UsageError("a path of a model and the name of an execution provider are needed")
    return _compatibility_of(Path(model_path), ep_type)


def get_compatibility_info_from_model_bytes(model: bytes, ep_type: str) -> str | None:
    """Return a serialized model's compatibility string for an EP; None if it has none.

    Raises:
        UsageError: an empty name, or bytes that are not a model.
    """
    if not model or not ep_type:
        raise UsageError("a serialized model and the name of an execution provider are needed")
    return _compatibility_of(model, ep_type)


def _compatibility_of(source: Path | bytes, ep_type: str) -> str | None:
    from ortpkg.graph.onnx_reader import (
        load_model,
    )  # imports onnx and numpy: only if a model is read

    try:
        return load_model(source).metadata_props.get(f"{_COMPATIBILITY_KEY}{ep_type}")
    except ModelError as error:  # onnxruntime raises a RuntimeError for every broken model
        raise UsageError(f"the model cannot be read: {error}") from error


def _registered_eps() -> list[str]:
    with _lock:
        return [plugin.name for plugin in _libraries.values()]


# --- what is installed ----------------------------------------------------------------------------


def get_version_string() -> str:
    """Return ortpkg's version (``ortpkg.__version__``)."""
    return __version__


def get_build_info() -> str:
    """Return one line with the versions of ortpkg, the mirrored release, Python and libraries."""
    libraries = ", ".join(
        f"{name}={version}" for name in _LIBRARIES if (version := _version_of(name))
    )
    return (
        f"Build Info: ortpkg={__version__}, onnxruntime-api={ONNXRUNTIME_RELEASE}, "
        f"python={platform.python_version()}, {libraries}"
    )


_LIBRARIES = ("numpy", "onnx", "openvino", "onnxruntime")


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def has_collective_ops() -> bool:
    """Return False: there are no operators that exchange tensors among processes."""
    return False


def print_debug_info() -> None:
    """Print installed versions and available devices; ``ortpkg doctor`` prints more."""
    print(get_build_info())
    print(f"platform: {platform.platform()}")
    for device in get_ep_devices():
        print(f"{device.ep_name} ({device.ep_device.backend}): {device.device.hardware.name}")


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Do nothing: no library of CUDA is used in this process.

    An installed onnxruntime loads its own.
    """


def disable_telemetry_events() -> None:
    """Do nothing: nothing is ever sent."""


def enable_telemetry_events() -> None:
    """Do nothing: nothing is ever sent."""


# --- settings of the process ----------------------------------------------------------------------


def set_default_logger_severity(severity: int) -> None:
    """Set the level of ortpkg's loggers: 0 all, 1 info, 2 warnings, 3 errors, 4 fatal only.

    Raises:
        UsageError: another number.
    """
    number = _whole_number("severity", severity)
    if number not in range(len(_SEVERITIES)):
        raise UsageError(f"a severity is a number from 0 to 4, not {number}")
    logging.getLogger("ortpkg").setLevel(_SEVERITIES[number])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Check the argument only: nothing is logged below severity 0, as in onnxruntime."""
    _whole_number("verbosity", verbosity)


def set_seed(seed: int) -> None:
    """Seed the random operators without a ``seed``, in sessions created from now on."""
    number = _whole_number("seed", seed, bits=64)
    from ortpkg.runtime.kernels.random_seed import (
        set_random_seed,  # imports numpy: only if it is needed
    )

    set_random_seed(number)


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Set the numbers of threads of sessions with ``use_per_session_threads = False``.

    0 leaves the number to each session.

    Raises:
        UsageError: a negative number.
    """
    global _global_threads  # noqa: PLW0603 - one setting per process is what the function promises
    sizes = (
        _whole_number("intra_op_num_threads", intra_op_num_threads),
        _whole_number("inter_op_num_threads", inter_op_num_threads),
    )
    if min(sizes) < 0:
        raise UsageError(f"numbers of threads are 0 or more, not {sizes}")
    with _lock:
        _global_threads = sizes


def global_thread_pool_sizes() -> tuple[int, int] | None:
    """Return (intra-op, inter-op) as they were set; None if they were not."""
    with _lock:
        return _global_threads


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Check the arguments only: each session keeps its own blocks, which its runs share."""
    _check_allocator(CPU_EP, mem_info, arena_cfg)


def create_and_register_allocator_v2(
    provider_type: str,
    mem_info: OrtMemoryInfo,
    options: Mapping[str, str],  # noqa: ARG001 - onnxruntime's argument
    arena_cfg: OrtArenaCfg | None,
) -> None:
    """Check the arguments only, as :func:`create_and_register_allocator` does, for a provider.

    Raises:
        UnknownExecutionProviderError: not the CPU provider; sessions share no other allocators.
    """
    _check_allocator(provider_type, mem_info, arena_cfg)


def _check_allocator(provider_type: str, mem_info: object, arena_cfg: object) -> None:
    if provider_type != CPU_EP:
        raise UnknownExecutionProviderError(
            f"{quoted(provider_type)} has no allocator that sessions could share",
            ep_name=provider_type,
        )
    if not isinstance(mem_info, OrtMemoryInfo) or not isinstance(arena_cfg, OrtArenaCfg | None):
        raise TypeError("an allocator is registered by an OrtMemoryInfo and an OrtArenaCfg or None")


def _whole_number(name: str, value: int, bits: int = 32) -> int:
    try:
        return whole_number(value, bits=bits)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
