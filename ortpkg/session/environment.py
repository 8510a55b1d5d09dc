"""What onnxruntime's module keeps per process: providers, logging, the seed, threads, allocators.

Each function has onnxruntime's name and does what it does there, or as near as this engine comes;
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

from ortpkg.devices.hardware import EpDevice
from ortpkg.devices.machine_probe import probe
from ortpkg.ep_names import CPU_EP, RELEASE_EPS
from ortpkg.errors import (
    EpLibraryError,
    ModelError,
    UnknownExecutionProviderError,
    UsageError,
    quoted,
)
from ortpkg.providers.ep_registry import available_factories, find_factory
from ortpkg.providers.missing_libraries import absent_library_text
from ortpkg.providers.plugins import Plugin, register_plugin, unregister_plugin
from ortpkg.session.known_attributes import whole_number
from ortpkg.session.memory_info import OrtArenaCfg, OrtMemoryInfo
from ortpkg.session.onnxruntime_enums import (
    OrtCompiledModelCompatibility,
    OrtDeviceEpIncompatibilityReason,
)
from ortpkg.session.ort_ep_device import (
    OrtEpDevice,
    OrtHardwareDevice,
    as_ep_device,
    offered_ep_devices,
)
from ortpkg.version import __version__

#: The release of onnxruntime whose Python module this one mirrors.
ONNXRUNTIME_RELEASE = "1.31"
_SEVERITIES = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_COMPATIBILITY_KEY = "ep_compatibility_info."

_lock = threading.Lock()
#: Name of the registration → plug-in.
_libraries: dict[str, Plugin] = {}
#: Threads of sessions that share them: (intra-op, inter-op); None where nobody asked for any.
_global_threads: tuple[int, int] | None = None


# --- execution providers --------------------------------------------------------------------------


def get_all_providers() -> list[str]:
    """Every execution provider that onnxruntime 1.31 knows, by default priority; CPU is last."""
    return list(RELEASE_EPS)


def get_available_providers() -> list[str]:
    """The execution providers that a session can take here, by default priority, CPU last.

    Those of ortpkg, of an installed openvino and onnxruntime, and of the libraries that were
    registered.
    """
    found = available_factories(probe().hardware, named=_registered_eps()).factories
    return list(dict.fromkeys(factory.ep_name for factory in found))


def get_device() -> str:
    """The kind of device that the embedded engine computes on: "CPU"."""
    return "CPU"


def get_ep_devices() -> list[OrtEpDevice]:
    """What the available execution providers offer on the devices of this machine."""
    return offered_ep_devices(named=_registered_eps())


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """What the machine has, whether or not an execution provider offers it."""
    return [OrtHardwareDevice(device) for device in probe().hardware]


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Takes a plug-in that nobody installed; its EP is of this machine until it is unregistered.

    Args:
        registration_name: for :func:`unregister_execution_provider_library`.
        library_path: ``"package.module:factory"``, as an entry point would have it
            (docs/plugins.md).

    Raises EpLibraryError where the name is taken or the path is that of a native library, which
    needs onnxruntime itself; ExecutionProviderError where the plug-in cannot be loaded; TypeError
    for what is no text.
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
    """Forgets a registered plug-in; sessions that have it keep it.

    EpLibraryError for another name.
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
    """Why an EP cannot use a device: ``reasons_bitmask`` (0: it can), ``notes``, ``error_code``.

    Raises UnknownExecutionProviderError for a name that nothing here has.
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
    """How well a model with that compatibility string runs on devices of one execution provider.

    Raises UsageError for no devices, or those of several providers; TypeError for what is no text.
    """
    if not isinstance(compatibility_info, str):
        raise TypeError(f"compatibility_info is a text, not {type(compatibility_info).__name__}")
    devices = [as_ep_device(each) for each in ep_devices]
    names = {(each.ep_name, each.backend) for each in devices}
    if len(names) != 1:
        raise UsageError(
            f"devices of exactly one execution provider are rated together, not of {len(names)}"
        )
    ep_name, backend = names.pop()
    rating = find_factory(ep_name, backend=backend).validate_compiled_model_compatibility_info(
        [each.device for each in devices if each.device is not None], compatibility_info
    )
    return OrtCompiledModelCompatibility[rating.value]


def get_compatibility_info_from_model(model_path: str, ep_type: str) -> str | None:
    """The compatibility string that a compiled model carries for an EP; None where it has none.

    Raises UsageError for an empty path or name, and for a file that is missing or no model.
    """
    if not model_path or not ep_type:
        raise UsageError("a path of a model and the name of an execution provider are needed")
    return _stated_compatibility(Path(model_path), ep_type)


def get_compatibility_info_from_model_bytes(model: bytes, ep_type: str) -> str | None:
    """:func:`get_compatibility_info_from_model` for a serialized model."""
    if not model or not ep_type:
        raise UsageError("a serialized model and the name of an execution provider are needed")
    return _stated_compatibility(model, ep_type)


def _stated_compatibility(source: Path | bytes, ep_type: str) -> str | None:
    from ortpkg.graph.onnx_reader import load_model  # onnx and numpy: only where a model is read

    try:
        return load_model(source).metadata_props.get(f"{_COMPATIBILITY_KEY}{ep_type}")
    except (
        ModelError
    ) as error:  # onnxruntime's is a RuntimeError here, whatever is wrong with the model
        raise UsageError(f"the model cannot be read: {error}") from error


def _registered_eps() -> list[str]:
    with _lock:
        return [plugin.name for plugin in _libraries.values()]


# --- what is installed ----------------------------------------------------------------------------


def get_version_string() -> str:
    """ortpkg's version, as ``ortpkg.__version__``."""
    return __version__


def get_build_info() -> str:
    """What runs here, in one line: ortpkg, the release it mirrors, Python, computing libraries."""
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
    """False: operators that exchange tensors among processes are not here."""
    return False


def print_debug_info() -> None:
    """Prints what is installed and which devices there are; ``ortpkg doctor`` says more."""
    print(get_build_info())
    print(f"platform: {platform.platform()}")
    for device in get_ep_devices():
        print(f"{device.ep_name} ({device.ep_device.backend}): {device.device.hardware.name}")


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Does nothing: no library of CUDA is used in this process.

    An installed onnxruntime loads its own.
    """


def disable_telemetry_events() -> None:
    """Does nothing: nothing is ever sent."""


def enable_telemetry_events() -> None:
    """Does nothing: nothing is ever sent."""


# --- settings of the process ----------------------------------------------------------------------


def set_default_logger_severity(severity: int) -> None:
    """What ortpkg's loggers let through: 0 all, 1 info, 2 warnings, 3 errors, 4 fatal only.

    UsageError for another number.
    """
    number = _whole_number("severity", severity)
    if number not in range(len(_SEVERITIES)):
        raise UsageError(f"a severity is a number from 0 to 4, not {number}")
    logging.getLogger("ortpkg").setLevel(_SEVERITIES[number])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Checks its argument only: nothing is logged below severity 0, nor in onnxruntime."""
    _whole_number("verbosity", verbosity)


def set_seed(seed: int) -> None:
    """Seeds the random operators without a ``seed`` of their own, in sessions made from now on."""
    number = _whole_number("seed", seed, bits=64)
    from ortpkg.kernels.random_seed import set_random_seed  # numpy: only where it is wanted

    set_random_seed(number)


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Threads of sessions with ``use_per_session_threads = False``.

    0 leaves the number to each of them.
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
    """(intra-op, inter-op) as they were set; None where nobody set them."""
    with _lock:
        return _global_threads


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    """Checks its arguments only: each session keeps its own blocks, which its runs share."""
    _check_allocator(CPU_EP, mem_info, arena_cfg)


def create_and_register_allocator_v2(
    provider_type: str,
    mem_info: OrtMemoryInfo,
    options: Mapping[str, str],  # noqa: ARG001 - onnxruntime's argument
    arena_cfg: OrtArenaCfg | None,
) -> None:
    """:func:`create_and_register_allocator` for a provider.

    Raises UnknownExecutionProviderError for one whose allocators sessions cannot share here: all
    but the CPU's.
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
