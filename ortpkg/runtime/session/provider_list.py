"""Create the providers of a session, in order, from what the caller names.

The embedded CPU provider is always last.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP, OPENVINO_EP, resolve_ep_name
from ortpkg.foundations.errors import (
    ExecutionProviderError,
    InvalidSessionOptionError,
    UnknownExecutionProviderError,
)
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.bridged_execution_provider import BridgedExecutionProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.ep_factory import EpFactory
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.isolated_model import ISOLATED_BACKENDS, IsolatedLibrary, LoadLimits
from ortpkg.runtime.providers.missing_libraries import absent_library_text
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.runtime.providers.plugins import BUILT_IN_BACKENDS, PluginEpFactory
from ortpkg.runtime.session.plugin_context_loader import guard_first_loads

_log = logging.getLogger(__name__)

EMBEDDED = "embedded"
#: Execution provider of a backend if none is named.
_DEFAULT_EP_OF_BACKEND: Mapping[str, str] = {
    EMBEDDED: CPU_EP,
    "openvino": OPENVINO_EP,
    "onnxruntime": CPU_EP,
    "llvm": LLVM_EP,
}

ProviderName = str | tuple[str, Mapping[str, str]]


def requested_ep_names(
    names: Sequence[ProviderName] | None,
    ep_devices: Sequence[tuple[EpDevice, Mapping[str, str]]] | None,
    backend: str | None,
) -> list[str]:
    """Return the full names of the EPs that a session asks for, available here or not."""
    if ep_devices is not None:
        return [device.ep_name for device, _ in ep_devices]
    if not names:
        return [_default_ep(backend)]
    entries: list[object] = [
        entry[0] if isinstance(entry, tuple) and entry else entry for entry in names
    ]
    # entries of other types are reported by whoever uses them
    return [resolve_ep_name(name) for name in entries if isinstance(name, str)]


def create_execution_providers(
    names: Sequence[ProviderName] | None,
    provider_options: Sequence[Mapping[str, str]] | None,
    ep_devices: Sequence[tuple[EpDevice, Mapping[str, str]]] | None,
    backend: str | None,
    *,
    isolation: LoadLimits | None = None,
) -> list[ExecutionProvider]:
    """Return the providers that a session asks for, in order.

    Args:
        names: EP names (or aliases) or pairs of name and options; None for the backend's default,
            which is the embedded CPU provider without a backend (for sessions without names see
            ``default_providers.py``).
        provider_options: options by position, if ``names`` are plain names.
        ep_devices: EP devices that selection returned, instead of names; adjacent ones with the
            same EP, backend and options share a provider.
        backend: backend of the named EPs; None for the first that has them.
        isolation: limits for loading models in child processes, in which native backends then run.

    Raises:
        UnknownExecutionProviderError: no EP here has this name.
        ExecutionProviderError: a provider cannot be created.
        InvalidSessionOptionError: options that do not match the names.
    """
    if ep_devices is not None:
        groups = _grouped(ep_devices, one_each=isolation is not None)
        providers = [
            provider_on_devices(devices, options, isolation) for devices, options in groups
        ]
    else:
        pairs = _pairs(names, provider_options, backend)
        providers = [_from_name(name, options, backend, isolation) for name, options in pairs]
    return providers


def create_default_providers(
    names: Sequence[str], *, isolation: LoadLimits | None = None
) -> list[ExecutionProvider]:
    """Return the providers of ``names``, which nobody requested.

    Log and leave out those that fail.
    """
    providers: list[ExecutionProvider] = []
    for name in names:
        try:
            providers.append(
                CPUExecutionProvider(is_requested=False)
                if name == CPU_EP and providers
                else _from_name(name, {}, None, isolation)
            )
        except ExecutionProviderError as error:
            _log.warning("%s is left out: %s", name, error)
    for provider in providers:
        provider.is_picked = True
    return providers


def register_execution_providers(created: Sequence[ExecutionProvider]) -> list[ExecutionProvider]:
    """Return the created providers and the CPU's, added if it is missing."""
    providers = list(created)
    embedded = next(
        (provider for provider in providers if isinstance(provider, CPUExecutionProvider)), None
    )
    if embedded is None:
        _log.info("adding the embedded CPU execution provider")
        providers.append(CPUExecutionProvider(is_requested=False))
    elif providers[-1] is not embedded:
        # first, as the caller wants it, and last, so that no node is left over
        providers.append(embedded)
    return providers


def _pairs(
    names: Sequence[ProviderName] | None,
    options: Sequence[Mapping[str, str]] | None,
    backend: str | None,
) -> list[tuple[str, Mapping[str, str]]]:
    if not names:
        return [(_default_ep(backend), {})]
    if options is not None and len(options) != len(names):
        raise InvalidSessionOptionError(
            f"provider_options has {len(options)} entries for {len(names)} providers; give one per"
            " provider",
            key="provider_options",
        )
    if options is not None and any(not isinstance(name, str) for name in names):
        raise InvalidSessionOptionError(
            "give options either in provider_options or beside each name, not both",
            key="provider_options",
        )
    options_by_name: dict[str, Mapping[str, str]] = {}
    for position, entry in enumerate(names):
        name, own_options = (entry, {}) if isinstance(entry, str) else entry
        options_by_name.setdefault(
            resolve_ep_name(name), own_options if options is None else options[position]
        )
    return list(options_by_name.items())


def _default_ep(backend: str | None) -> str:
    """Return the default EP of a backend."""
    return _DEFAULT_EP_OF_BACKEND.get(backend or EMBEDDED, backend or EMBEDDED)


def _from_name(
    name: str, options: Mapping[str, str], backend: str | None, isolation: LoadLimits | None
) -> ExecutionProvider:
    if name == CPU_EP and backend in {None, EMBEDDED}:
        return CPUExecutionProvider(options=options)
    factory = find_factory(name, backend=backend)
    if not factory.is_available():
        raise UnknownExecutionProviderError(
            absent_library_text(name, factory.backend), ep_name=name
        )
    # A plug-in is created with the devices that it reports; ours find their own by their options.
    devices = (
        []
        if factory.backend in BUILT_IN_BACKENDS
        else factory.get_supported_devices(probe().hardware)
    )
    return _created(factory, devices, options, isolation)


def _grouped(
    ep_devices: Sequence[tuple[EpDevice, Mapping[str, str]]], *, one_each: bool
) -> list[tuple[list[EpDevice], Mapping[str, str]]]:
    """Group adjacent devices of one EP, backend and options.

    ``one_each``: a child process serves one device.
    """
    groups: list[tuple[list[EpDevice], Mapping[str, str]]] = []
    for device, options in ep_devices:
        last, last_options = groups[-1] if groups else ([], {})
        is_same = bool(last) and (last[0].ep_name, last[0].backend) == (
            device.ep_name,
            device.backend,
        )
        if is_same and dict(last_options) == dict(options) and not one_each:
            last.append(device)
        else:
            groups.append(([device], options))
    return groups


def is_here(name: str) -> bool:
    """Return True if a session can use the EP of this full name on this machine."""
    try:
        return name == CPU_EP or find_factory(name).is_available()
    except UnknownExecutionProviderError:
        return False


def provider_on_devices(
    devices: Sequence[EpDevice], options: Mapping[str, str], isolation: LoadLimits | None
) -> ExecutionProvider:
    """Return the provider of ``devices``, which belong to one EP and backend."""
    ep_name, backend = devices[0].ep_name, devices[0].backend
    if ep_name == CPU_EP and backend == EMBEDDED:
        return CPUExecutionProvider(ep_devices=devices, options=options)
    return _created(find_factory(ep_name, backend=backend), devices, options, isolation)


def _created(
    factory: EpFactory,
    devices: Sequence[EpDevice],
    options: Mapping[str, str],
    isolation: LoadLimits | None,
) -> ExecutionProvider:
    if isolation is not None and isinstance(factory, PluginEpFactory):
        raise InvalidSessionOptionError(
            f"{factory.plugin} can be isolated only where it is named: in providers, ep_devices, or"
            " by add_provider",
            key="isolate",
        )
    if isolation is not None and factory.backend in ISOLATED_BACKENDS:
        library = IsolatedLibrary(
            factory.ep_name,
            backend=factory.backend,
            ep_devices=devices,
            options=options,
            limits=isolation,
        )
        is_bridge = factory.backend == OnnxRuntimeEpFactory.backend
        make = BridgedExecutionProvider if is_bridge else NativeExecutionProvider
        return make(factory.ep_name, library, ep_devices=devices, options=options)
    provider = factory.create(devices, options)
    guard_first_loads(provider, factory, devices, options)
    return provider
