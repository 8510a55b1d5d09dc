"""Arguments for an application's own ``onnxruntime.InferenceSession`` on a variant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import ExecutionProviderError, InvalidSessionOptionError, quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.nvidia_libraries import CUDA_EPS, prepare_nvidia_libraries
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime_for_application


class OnnxRuntimeArgs(TypedDict):
    """Keyword arguments of ``onnxruntime.InferenceSession``.

    If onnxruntime knows the EP's devices, the execution provider is part of ``sess_options`` and
    ``providers`` is None. Otherwise ``providers`` names it, with the CPU's behind it, and
    ``provider_options`` has one entry for each.
    """

    path_or_bytes: str
    sess_options: Any
    providers: list[str] | None
    provider_options: list[dict[str, str]] | None


_SWITCHES = {
    "session.enable_cpu_mem_arena": "enable_cpu_mem_arena",
    "session.enable_mem_pattern": "enable_mem_pattern",
    "session.enable_mem_reuse": "enable_mem_reuse",
    "session.use_deterministic_compute": "use_deterministic_compute",
    "session.use_per_session_threads": "use_per_session_threads",
}
_NUMBERS = {
    "session.intra_op_num_threads": "intra_op_num_threads",
    "session.inter_op_num_threads": "inter_op_num_threads",
    "session.log_severity_level": "log_severity_level",
    "session.log_verbosity_level": "log_verbosity_level",
}


def make_onnxruntime_args(
    path: os.PathLike[str] | str,
    ep_device: EpDevice,
    *,
    session_options: Mapping[str, str],
    provider_options: Mapping[str, str],
    sess_options: Any = None,
) -> OnnxRuntimeArgs:
    """Return the arguments for a model on one EP device of the installed onnxruntime.

    Args:
        path: path of the model.
        ep_device: EP device that selection chose; its backend is "onnxruntime".
        session_options: config entries to add.
        provider_options: options for the EP of ``ep_device``.
        sess_options: the caller's ``onnxruntime.SessionOptions``, which is changed; None: a new
            one.

    Raises:
        ExecutionProviderError: onnxruntime cannot be loaded, or no longer has the EP or the device.
        InvalidSessionOptionError: a session option has a value that onnxruntime does not take.
    """
    onnxruntime = _load_onnxruntime(ep_device.ep_name)
    options = onnxruntime.SessionOptions() if sess_options is None else sess_options
    for key, value in session_options.items():
        _set(onnxruntime, options, key, value)
    arguments = OnnxRuntimeArgs(
        path_or_bytes=str(path), sess_options=options, providers=None, provider_options=None
    )
    if ep_device.ep_name in CUDA_EPS:
        prepare_nvidia_libraries(onnxruntime)
    if _has_listed_device(onnxruntime, ep_device):
        offered = _offered_device(onnxruntime, ep_device)
        options.add_provider_for_devices([offered], dict(provider_options))
        return arguments
    available = onnxruntime.get_available_providers()
    if ep_device.ep_name not in available:
        raise ExecutionProviderError(
            f"onnxruntime {onnxruntime.__version__} has no {quoted(ep_device.ep_name)} any more; it"
            f" has: {', '.join(available)}",
            ep_name=ep_device.ep_name,
        )
    names = list(dict.fromkeys([ep_device.ep_name, CPU_EP]))
    arguments["providers"] = names
    arguments["provider_options"] = [
        {**ep_device.ep_options, **provider_options} if name == ep_device.ep_name else {}
        for name in names
    ]
    return arguments


def _has_listed_device(onnxruntime: Any, ep_device: EpDevice) -> bool:
    """Return True for a device that onnxruntime lists itself, or that has gone from its list.

    It lists none for its own provider on CUDA, whose devices the driver lists.
    """
    if ep_device.device is None or ep_device.ep_name == CPU_EP:
        return False
    is_own = ep_device.ep_name in onnxruntime.get_available_providers()
    return not (is_own and ep_device.ep_name in CUDA_EPS) or any(
        listed.ep_name == ep_device.ep_name for listed in onnxruntime.get_ep_devices()
    )


def _load_onnxruntime(ep_name: str) -> Any:
    try:
        return load_onnxruntime_for_application()
    except Exception as error:  # a damaged installation raises more than ImportError
        raise ExecutionProviderError(
            f"onnxruntime cannot be loaded: {quoted(error)}", ep_name=ep_name
        ) from error


def _set(onnxruntime: Any, options: Any, key: str, value: str) -> None:
    """Set an attribute that the Python class has; add everything else as a config entry."""
    try:
        if key in _SWITCHES:
            setattr(
                options,
                _SWITCHES[key],
                {"0": False, "1": True, "false": False, "true": True}[value.lower()],
            )
        elif key in _NUMBERS:
            setattr(options, _NUMBERS[key], int(value))
        elif key == "session.log_id":
            options.logid = value
        elif key == "session.execution_mode":
            options.execution_mode = onnxruntime.ExecutionMode.__members__[value]
        elif key == "session.graph_optimization_level":
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.__members__[value]
        else:
            options.add_session_config_entry(key, value)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InvalidSessionOptionError(
            f"the session option {quoted(key)} has the value {quoted(value)}, which onnxruntime"
            " does not take",
            key=key,
        ) from error


def _offered_device(onnxruntime: Any, ep_device: EpDevice) -> Any:
    """Return onnxruntime's own OrtEpDevice for the chosen EP device.

    Raises:
        ExecutionProviderError: the device vanished between selection and session.
    """
    same_ep = [
        device for device in onnxruntime.get_ep_devices() if device.ep_name == ep_device.ep_name
    ]
    matching = [device for device in same_ep if _is_same(device, ep_device)]
    if matching:
        return matching[0]
    wanted = ep_device.device.name if ep_device.device is not None else ""
    raise ExecutionProviderError(
        f"the device {quoted(wanted)} that selection chose for {ep_device.ep_name} is not there any"
        f" more: onnxruntime now reports {len(same_ep)} device(s) for it; select again",
        ep_name=ep_device.ep_name,
    )


def _is_same(offered: Any, ep_device: EpDevice) -> bool:
    device = ep_device.device
    assert device is not None
    if offered.device.type.name.lower() != device.type.value or dict(offered.ep_options) != dict(
        ep_device.ep_options
    ):
        return False
    address = dict(offered.device.metadata).get("pci_bus_id", "")
    known_address = device.metadata.get("pci_address", "")
    if address and known_address:
        return str(address).lower() == known_address
    if not offered.device.device_id or not device.device_id:
        return (
            not offered.device.vendor_id
            or not device.vendor_id
            or offered.device.vendor_id == device.vendor_id
        )
    return (offered.device.vendor_id, offered.device.device_id) == (
        device.vendor_id,
        device.device_id,
    )
