"""Create a session's providers, and decide which mistakes of the caller warn and which fail.

As in onnxruntime's Python API: a provider that some release of it has but that is not available
here is left out with a warning; any other mistake in the list makes the session fall back to the
CPU, with a warning, unless the caller forbids that. Backends and EP devices are ortpkg's own
arguments: with them, every mistake is an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from ortpkg.foundations.ep_names import CPU_EP, is_known_ep, resolve_ep_name
from ortpkg.foundations.errors import ExecutionProviderError, InvalidSessionOptionError, quoted
from ortpkg.graph.model import Model
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.ep_registry import available_factories, find_factory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.isolated_model import LoadLimits
from ortpkg.runtime.providers.plugins import Plugin, PluginEpFactory
from ortpkg.runtime.session.caller_warnings import warn_caller
from ortpkg.runtime.session.default_providers import configured_ep_names, default_ep_names
from ortpkg.runtime.session.device_policy import devices_of_policy
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.provider_list import (
    ProviderName,
    create_default_providers,
    create_execution_providers,
    is_here,
    provider_on_devices,
    requested_ep_names,
)

_ARGUMENTS = ("providers", "provider_options")
#: onnxruntime allows only one of these in a session.
_NOT_TOGETHER = frozenset({"TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """Providers that a session's caller asks for.

    See :class:`~ortpkg.runtime.session.inference_session.InferenceSession`.

    Attributes:
        falls_back: True to use the CPU if a list of names is not available.
        allows_fallback: True to let other providers run the model if the named ones take no node.
        isolation: limits for loading models in child processes; None: in this process.
    """

    providers: Sequence[ProviderName] | None = None
    provider_options: Sequence[Mapping[str, str]] | None = None
    ep_devices: Sequence[tuple[EpDevice, Mapping[str, str]]] | None = None
    backend: str | None = None
    falls_back: bool = True
    allows_fallback: bool = False
    isolation: LoadLimits | None = None

    @property
    def is_by_name(self) -> bool:
        """True if providers are requested by names alone, as in onnxruntime's API."""
        return bool(self.providers) and self.ep_devices is None and self.backend is None


def create_session_providers(
    request: ProviderRequest, options: SessionOptions, model: Model | None
) -> tuple[list[ExecutionProvider], bool]:
    """Return the providers of a session, in order, and True if they are the default ones.

    Raises:
        UsageError: ``ORTPKG_PROVIDERS`` names nothing.
        OrtpkgError: as :func:`create_requested_providers`.
    """
    is_named = (
        bool(request.providers) or request.ep_devices is not None or request.backend is not None
    )
    if is_named or options.has_providers():
        providers = create_requested_providers(request, options, model)
        is_by_policy = (
            options.provider_selection_policy is not None
            and not is_named
            and not options.requested_providers
        )
        return providers if is_by_policy else _named(providers), False
    configured = configured_ep_names()
    if configured:
        providers = create_execution_providers(
            configured, None, None, None, isolation=request.isolation
        )
        return _named(providers), False
    return create_default_providers(default_ep_names(options), isolation=request.isolation), True


def _named(providers: list[ExecutionProvider]) -> list[ExecutionProvider]:
    """Mark the providers as named by the caller, and return them."""
    for provider in providers:
        provider.is_named = True
    return providers


def requested_plugins(request: ProviderRequest, options: SessionOptions) -> list[Plugin]:
    """Return the plug-ins that a session asks for, each once.

    Unavailable or wrong names are reported elsewhere.
    """
    names: list[tuple[str, str | None]]
    if request.ep_devices is not None:
        names = [(device.ep_name, device.backend) for device, _ in request.ep_devices]
    elif request.providers or request.backend is not None:
        names = [
            (name, request.backend)
            for name in requested_ep_names(request.providers, None, request.backend)
        ]
    elif options.has_providers():
        names = [
            (name, devices[0].backend if devices else None)
            for name, devices, _ in options.requested_providers
        ]
    else:
        names = [(name, None) for name in configured_ep_names()]
    plugins: dict[Plugin, None] = {}
    for name, backend in names:
        with contextlib.suppress(ExecutionProviderError):
            factory = None if name == CPU_EP else find_factory(name, backend=backend)
            if isinstance(factory, PluginEpFactory):
                plugins[factory.plugin] = None
    return list(plugins)


def create_requested_providers(
    request: ProviderRequest, options: SessionOptions, model: Model | None
) -> list[ExecutionProvider]:
    """Return the requested providers, in order.

    Raises:
        UnknownExecutionProviderError, ExecutionProviderError: one is not available, and there is no
            fallback.
        InvalidSessionOptionError: a malformed list of providers or options.
    """
    if options.has_providers():
        if request.ep_devices is None and not request.providers:
            return _from_options(options, request, model)
        warn_caller(
            "the session options have providers of their own; the session has those that it was"
            " made with only"
        )
    if not request.is_by_name:
        return _created(request)
    try:
        return _created(_without_absent(request))
    except (ExecutionProviderError, InvalidSessionOptionError) as error:
        is_about_providers = (
            not isinstance(error, InvalidSessionOptionError) or error.key in _ARGUMENTS
        )
        if not (request.falls_back and is_about_providers):
            raise
        warn_caller(
            f"{error}; the session falls back to {CPU_EP} (enable_fallback=False makes this an"
            " error)"
        )
        return _created(replace(request, providers=[CPU_EP], provider_options=None))


def _created(request: ProviderRequest) -> list[ExecutionProvider]:
    return create_execution_providers(
        request.providers,
        request.provider_options,
        request.ep_devices,
        request.backend,
        isolation=request.isolation,
    )


def _from_options(
    options: SessionOptions, request: ProviderRequest, model: Model | None
) -> list[ExecutionProvider]:
    policy = options.provider_selection_policy
    if policy is not None and not options.requested_providers:
        assert model is not None, "a policy chooses by the model"
        by_ep: dict[tuple[str, str], list[EpDevice]] = {}
        for device in devices_of_policy(policy, model):
            by_ep.setdefault((device.ep_name, device.backend), []).append(device)
        return [
            provider_on_devices(tuple(devices), {}, request.isolation) for devices in by_ep.values()
        ]
    providers: list[ExecutionProvider] = []
    for name, devices, own_options in options.requested_providers:
        if devices:
            providers.append(provider_on_devices(devices, own_options, request.isolation))
        else:
            providers += create_execution_providers(
                [(name, own_options)], None, None, request.backend, isolation=request.isolation
            )
    return providers


# --- names ----------------------------------------------------------------------------------------


def _without_absent(request: ProviderRequest) -> ProviderRequest:
    """Return the request without duplicates and unavailable providers, options beside each."""
    options_by_name: dict[str, Mapping[str, str]] = {}
    pairs = normalized_providers(request.providers or (), request.provider_options)
    _check_go_together({resolve_ep_name(named) for named, _ in pairs})
    for named, options in pairs:
        name = resolve_ep_name(named)
        if name in options_by_name:
            warn_caller(f"execution provider {quoted(named)} is named twice")
        elif is_known_ep(name) and not is_here(name):
            here = ", ".join(
                dict.fromkeys(factory.ep_name for factory in available_factories(()).factories)
            )
            warn_caller(
                f"execution provider {quoted(named)} is not available here and is left out;"
                f" available are {here}"
            )
        else:
            options_by_name[name] = options
    return replace(
        request, providers=list(options_by_name.items()) or [CPU_EP], provider_options=None
    )


def _check_go_together(names: Set[str]) -> None:
    if names >= _NOT_TOGETHER:
        raise _wrong(
            "providers",
            f"{' and '.join(sorted(_NOT_TOGETHER))} cannot be in one session; name one of them",
        )


def normalized_providers(
    providers: Sequence[ProviderName], provider_options: Sequence[Mapping[Any, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    """Return pairs of name and options, with keys and values as strings.

    Raises:
        InvalidSessionOptionError: the arguments have another form (a ValueError too).
    """
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise _wrong("providers", f"providers is a list of names, not a {type(providers).__name__}")
    if provider_options is None:
        return [_pair(entry) for entry in providers]
    if not isinstance(provider_options, Sequence):
        raise _wrong(
            "provider_options",
            f"provider_options is a list, not a {type(provider_options).__name__}",
        )
    if len(provider_options) != len(providers):
        raise _wrong(
            "provider_options",
            f"provider_options has {len(provider_options)} entries for {len(providers)} providers;"
            " give one for each",
        )
    if not all(isinstance(name, str) for name in providers):
        raise _wrong(
            "provider_options",
            "give options either in provider_options or beside each name, not both",
        )
    return [
        _pair((name, options)) for name, options in zip(providers, provider_options, strict=True)
    ]


def _pair(entry: Any) -> tuple[str, dict[str, str]]:
    if isinstance(entry, str):
        return entry, {}
    is_pair = isinstance(entry, tuple) and len(entry) == 2
    if not (is_pair and isinstance(entry[0], str) and isinstance(entry[1], Mapping)):
        raise _wrong(
            "providers",
            f"each of providers is a name or a pair of name and options, not {quoted(entry)}",
        )
    return entry[0], {str(key): str(value) for key, value in entry[1].items()}


def _wrong(key: str, message: str) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(message, key=key)
