"""Asks the installed onnxruntime what it offers; runs in a child process.

The only module of selection that imports onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.runtime.providers.ep_discovery.ep_package import import_ep_package
from ortpkg.runtime.providers.ep_discovery.library_refusals import REFUSED
from ortpkg.runtime.providers.ep_discovery.registered_ep_library import (
    LibraryRefusedError,
    register_ep_library,
)
from ortpkg.runtime.providers.library_traits import LIBRARY_TRAITS
from ortpkg.runtime.providers.nvidia_libraries import prepare_nvidia_libraries
from ortpkg.runtime.providers.operator_probe import one_node_model, pairs
from ortpkg.runtime.providers.provider_trials import try_providers
from ortpkg.runtime.providers.quiet_onnxruntime import FATAL_ONLY, load_onnxruntime

#: Providers that run none of a model's own operators: their operators call web services.
_WITHOUT_KERNELS = frozenset({"AzureExecutionProvider"})
#: Most EP devices of one library that are believed: no machine has more.
_MOST_EP_DEVICES = 256


def list_offers() -> dict[str, Any]:
    """Return ``{"version", "providers", "ep_devices", "unusable", "notes"}``.

    ``providers`` are names, ``unusable`` and ``notes`` texts by name. Builds before 1.22 know no EP
    devices; of a provider on CUDA those are listed that its driver has.
    """
    onnxruntime = load_onnxruntime()
    missing = prepare_nvidia_libraries(onnxruntime)
    ep_devices = onnxruntime.get_ep_devices() if hasattr(onnxruntime, "get_ep_devices") else []
    providers = onnxruntime.get_available_providers()
    listed = {ep_device.ep_name for ep_device in ep_devices}
    trials = try_providers(onnxruntime, [name for name in providers if name not in listed], missing)
    return {
        "version": onnxruntime.__version__,
        "providers": providers,
        "ep_devices": [*(_ep_device(ep_device) for ep_device in ep_devices), *trials.ep_devices],
        "unusable": trials.unusable,
        "notes": trials.notes,
    }


def list_library_offers(
    ep_name: str, path: str, package: Sequence[str] | None = None, siblings: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the same for one library, registered under the name of its execution provider.

    Meta devices of its own (OpenVINO's AUTO), which have names of their own, are left out. If the
    library is refused, the result is ``{"version", "refused"}``, the latter with the reason.

    Args:
        ep_name: the execution provider.
        path: path of the library.
        package: module and folder of the package to import first; None for none.
        siblings: names of other execution providers in the library.

    Raises:
        ValueError: it offers more devices than any machine has.
    """
    onnxruntime = load_onnxruntime()
    try:
        ep_devices = _register(onnxruntime, ep_name, path, package, siblings)
    except LibraryRefusedError as error:
        return {"version": onnxruntime.__version__, REFUSED: error.reason}
    _verify_count(ep_devices)
    return {
        "version": onnxruntime.__version__,
        "providers": [ep_name] if ep_devices else [],
        "ep_devices": [_ep_device(ep_device) for ep_device in ep_devices],
    }


def list_absent_devices(
    ep_name: str,
    path: str,
    package: Sequence[str] | None = None,
    siblings: Sequence[str] = (),
) -> list[dict[str, Any]] | dict[str, str]:
    """Return devices that are not here and for which the library compiles, as its EP devices.

    Where the library is refused, ``{"refused"}`` with the reason. The arguments and errors
    are those of :func:`list_library_offers`.
    """
    onnxruntime = load_onnxruntime()
    try:
        listed = _register(onnxruntime, ep_name, path, package, siblings, allows_absent=True)
    except LibraryRefusedError as error:
        return {REFUSED: error.reason}
    _verify_count(listed)
    return [_ep_device(ep_device) for ep_device in listed]


def _verify_count(ep_devices: Sequence[Any]) -> None:
    if len(ep_devices) > _MOST_EP_DEVICES:
        raise ValueError(
            f"it offers {len(ep_devices)} devices; at most {_MOST_EP_DEVICES} are believed"
        )


def rate_for_absent_device(
    ep_name: str,
    index: int,
    info: str,
    path: str,
    package: Sequence[str] | None = None,
    siblings: Sequence[str] = (),
) -> str | None:
    """Rate a compatibility string for one of the devices that :func:`list_absent_devices` lists.

    None if this build has no function for it.
    """
    onnxruntime = load_onnxruntime()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    rate = getattr(state, "get_model_compatibility_for_ep_devices", None)
    listed = _register(onnxruntime, ep_name, path, package, siblings, allows_absent=True)
    if rate is None or index >= len(listed):
        return None
    return str(rate([listed[index]], info).name)


def _register(
    onnxruntime: Any,
    ep_name: str,
    path: str,
    package: Sequence[str] | None,
    siblings: Sequence[str],
    *,
    allows_absent: bool = False,
) -> tuple[Any, ...]:
    if package is not None:
        import_ep_package(*package)
    return register_ep_library(onnxruntime, ep_name, path, siblings, allows_absent=allows_absent)


def rate_compatibility(
    ep_name: str,
    positions: list[int],
    info: str,
    path: str = "",
    package: Sequence[str] | None = None,
    siblings: Sequence[str] = (),
) -> str | None:
    """Return onnxruntime's name for its rating of a compatibility string on EP devices of one EP.

    None if this build has no function for it, or no longer has the devices.

    Args:
        ep_name: the execution provider.
        positions: positions of the devices among those of the execution provider.
        info: the compatibility string.
        path: path of the execution provider's library, if it is not onnxruntime's own.
        package, siblings: as for :func:`list_library_offers`.
    """
    onnxruntime = load_onnxruntime()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    rate = getattr(state, "get_model_compatibility_for_ep_devices", None)
    if rate is None:
        return None
    if path:
        offered = list(_register(onnxruntime, ep_name, path, package, siblings))
    else:
        offered = [
            ep_device for ep_device in onnxruntime.get_ep_devices() if ep_device.ep_name == ep_name
        ]
    if not positions or max(positions) >= len(offered):
        return None
    return str(rate([offered[position] for position in positions], info).name)


def missing_operators(ep_name: str, operators: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the operators that neither the EP nor onnxruntime's CPU provider has a kernel for.

    An EP without kernels in this build compiles what it takes: for it only operators that
    onnxruntime does not define are missing.
    """
    onnxruntime = load_onnxruntime()
    prepare_nvidia_libraries(onnxruntime)
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    list_kernels = getattr(state, "get_all_opkernel_def", None)
    kernels = (
        {(kernel.domain, kernel.op_name, kernel.provider) for kernel in list_kernels()}
        if list_kernels
        else set()
    )
    counted = {ep_name, CPU_EP}
    has_kernels = ep_name in _WITHOUT_KERNELS or any(
        provider == ep_name for _, _, provider in kernels
    )
    available = {(domain, name) for domain, name, provider in kernels if provider in counted}
    return [
        operator
        for operator in pairs(operators)
        if operator not in available and (has_kernels or not _is_defined(onnxruntime, *operator))
    ]


def _is_defined(onnxruntime: Any, domain: str, op_type: str) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    try:
        onnxruntime.InferenceSession(one_node_model(domain, op_type), options, providers=[CPU_EP])
    except Exception as error:  # noqa: BLE001 - onnxruntime has an exception of its own for each status
        return (domain, op_type) not in LIBRARY_TRAITS["onnxruntime"].unknown_operators(str(error))
    return True


def _ep_device(ep_device: Any) -> dict[str, Any]:
    device = ep_device.device
    return {
        "ep_name": ep_device.ep_name,
        "ep_vendor": ep_device.ep_vendor,
        "ep_metadata": dict(ep_device.ep_metadata),
        "ep_options": dict(ep_device.ep_options),
        "type": device.type.name.lower(),
        "vendor": device.vendor,
        "vendor_id": device.vendor_id,
        "device_id": device.device_id,
        "metadata": dict(device.metadata),
    }
