"""Default execution providers of a session: all that the machine supports.

The order is that of ``ep_names.KNOWN_EPS``, the one table of priorities. A provider is *supported*
if its library is installed and offers a device of this machine, or if its name implies a kind of
device that the machine has. Plug-ins, libraries that wheels bring for onnxruntime (ADR 17), and
built-in providers that must be named are not among them (ADR 16).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cache

from ortpkg.foundations.ep_names import CPU_EP, KNOWN_EPS, LLVM_EP, resolve_ep_name
from ortpkg.foundations.errors import EpContextError, ExecutionProviderError, UsageError, quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_ENABLE
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.ep_factory import EpFactory, is_offered_unnamed
from ortpkg.runtime.providers.ep_registry import available_factories
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.llvm.llvm_compiler import has_compiler
from ortpkg.runtime.providers.onnxruntime_factory import installed_distributions
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.session.options import ExecutionMode, SessionOptions

#: Environment variable: names of providers, separated by commas, instead of the built-in list.
PROVIDERS_VARIABLE = "ORTPKG_PROVIDERS"

_log = logging.getLogger(__name__)


def configured_ep_names() -> tuple[str, ...]:
    """Return the names in ``ORTPKG_PROVIDERS``, in their order; nothing if it is not set.

    Raises:
        UsageError: it is set and names nothing.
    """
    text = os.environ.get(PROVIDERS_VARIABLE, "").strip()
    names = [resolve_ep_name(part.strip()) for part in text.split(",") if part.strip()]
    if text and not names:
        raise UsageError(
            f"{PROVIDERS_VARIABLE} is {quoted(text)}; it must be names of execution providers,"
            " separated by commas"
        )
    return tuple(dict.fromkeys(names))


def default_ep_names(options: SessionOptions) -> tuple[str, ...]:
    """Return the default providers of a session with these options, in order, the CPU last.

    It is the CPU provider alone if the options need the embedded engine: limits of memory and time
    that hold without a child process, the same bits in each run, parallel execution of nodes, a
    model written after its transformation.
    """
    return (CPU_EP,) if _needs_the_engine(options) else supported_ep_names()


def may_do_without(
    error: ExecutionProviderError, providers: Sequence[ExecutionProvider], options: SessionOptions
) -> bool:
    """Return True if a session may continue on the CPU after a default provider failed.

    Then all other providers are closed, and a warning is logged. Return False if the embedded
    provider was the only one, if a compiled context in the model is at fault, or if contexts are to
    be made.
    """
    if isinstance(error, EpContextError) or options.config_entries.get(CONTEXT_ENABLE) == "1":
        return False
    others = [
        provider
        for provider in dict.fromkeys(providers)
        if not isinstance(provider, CPUExecutionProvider)
    ]
    for provider in others:
        provider.close()
    if others:
        _log.warning("the session is on %s alone: %s", CPU_EP, error)
    return bool(others)


@cache
def supported_ep_names() -> tuple[str, ...]:
    """Return the providers that this machine supports, the CPU last; looked up once per process."""
    if not (installed_distributions() or OpenVinoEpFactory().is_available() or has_compiler()):
        return (CPU_EP,)  # there is nothing to ask, and hardware need not be looked at
    hardware = probe().hardware
    supported = {CPU_EP}
    for factory in available_factories(hardware, with_libraries=False).factories:
        try:
            offers = [] if factory.ep_name in supported else factory.get_supported_devices(hardware)
        except ExecutionProviderError as error:
            _log.warning("%s is left out: %s", factory.ep_name, error)
            continue
        if _is_supported(factory, offers):
            supported.add(factory.ep_name)
    return tuple(name for name in (*KNOWN_EPS[:-1], LLVM_EP, CPU_EP) if name in supported)


def _is_supported(factory: EpFactory, offers: Sequence[EpDevice]) -> bool:
    """Return True if the provider offers a device here, or its name implies one that is here.

    A provider that only runs compiled contexts is not supported: an arbitrary model has none.
    """
    has_device = any(offer.device is not None and is_offered_unnamed(offer) for offer in offers)
    return has_device or bool(offers and factory.ep_name in IMPLIED_DEVICE_TYPES)


def _needs_the_engine(options: SessionOptions) -> bool:
    return bool(
        options.memory_limit_nbytes is not None
        or options.timeout_s is not None
        or options.use_deterministic_compute
        or options.optimized_model_filepath
        or options.execution_mode is ExecutionMode.ORT_PARALLEL
    )
