"""Keep a session off the CPU if its device has vanished since the selection."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ortpkg.foundations.errors import (
    ExecutionProviderError,
    InvalidSessionOptionError,
    KernelNotFoundError,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, hardware_label
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import DISABLE_CPU_FALLBACK_ENTRY

_log = logging.getLogger(__name__)


def session_on(
    ep_device: EpDevice,
    make: Callable[[], InferenceSession],
    make_on_cpu: Callable[[], InferenceSession] | None,
) -> InferenceSession:
    """Return the session of ``make``, unless ``ep_device`` is gone and took no node of its model.

    Then return that of ``make_on_cpu``, so that its providers are those that it really has. The
    backend is asked again only if nothing ran on the device.

    Raises:
        ExecutionProviderError: the device is gone and ``make_on_cpu`` is None.
    """
    try:
        session = make()
    except (ExecutionProviderError, KernelNotFoundError, InvalidSessionOptionError) as error:
        problem = _absence_text(ep_device)
        if not problem:
            raise
        raise _gone_error(ep_device, problem) from error
    if any(partition.provider == ep_device.ep_name for partition in session.get_partitions()):
        return session
    problem = _absence_text(ep_device)
    if not problem:
        return session
    session.close()
    if make_on_cpu is None:
        raise _gone_error(ep_device, problem)
    _log.warning("%s; the session runs on the CPU, as its options allow", problem)
    return make_on_cpu()


def _gone_error(ep_device: EpDevice, problem: str) -> ExecutionProviderError:
    return ExecutionProviderError(
        f"device gone: {problem}; select again, or let the CPU stand in (allow_fallback=True,"
        f" --allow-fallback, or the session option {DISABLE_CPU_FALLBACK_ENTRY}=0)",
        ep_name=ep_device.ep_name,
    )


def _absence_text(ep_device: EpDevice) -> str:
    """Return a text saying why the device is gone; "" if it is here, or is the CPU."""
    device = ep_device.device
    if device is None or device.type is DeviceType.CPU:
        return ""
    chosen = f"{hardware_label(device)}, which selection chose for {ep_device.ep_and_backend}"
    try:
        factory = find_factory(ep_device.ep_name, backend=ep_device.backend)
        if factory.has_device(ep_device, probe().hardware):
            return ""
    except ExecutionProviderError as error:
        return f"{chosen}, cannot be asked for any more: {error}"
    return f"{chosen}, is not there any more"
