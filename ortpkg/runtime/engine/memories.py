"""The memories of a session: the allocator behind each device of its plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ortpkg.foundations.errors import (
    ExecutionProviderError,
    OrtpkgError,
    PlanVerificationError,
    printable,
    quoted,
)
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.runtime.engine.execution_plan import CPU_DEVICE, OrtDevice
from ortpkg.runtime.engine.provider_answers import allocator_of
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.providers.allocator import Allocator, CPUAllocator, DeviceAllocator
from ortpkg.runtime.providers.execution_provider import ExecutionProvider


class Memories:
    """Allocators of a session's memories; :func:`memories_of` maps providers to devices.

    Attributes:
        devices: execution provider → its memory.
    """

    def __init__(self, allocators: Mapping[str, Allocator]) -> None:
        """Create the memories.

        ``allocators``: execution provider → allocator; of several for one memory the first is used.
        """
        self.devices = {
            name: OrtDevice(
                allocator.name,
                allocator.alignment,
                allocator.is_host_accessible,
                allocator.is_divisible,
            )
            for name, allocator in allocators.items()
        }
        self._allocators: dict[OrtDevice, Allocator] = {CPU_DEVICE: CPUAllocator()}
        self._providers: dict[OrtDevice, str] = {}
        for name, allocator in allocators.items():
            device = self.devices[name]
            if device not in self._providers:
                self._allocators[device] = allocator
                self._providers[device] = name

    def allocate(self, device: OrtDevice, nbytes: int) -> Any:
        """Return a new block; ExecutionProviderError if the provider's allocator fails."""
        try:
            return self._allocators[device].allocate(nbytes)
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            if device.is_host_accessible:
                raise
            name = self._providers[device]
            raise ExecutionProviderError(
                f"{name}: its memory {quoted(device.name)} gave no block of {nbytes} bytes:"
                f" {printable(error)}",
                ep_name=name,
            ) from error

    def device_allocator(self, device: OrtDevice) -> DeviceAllocator:
        """Return the allocator of a memory that the CPU cannot read.

        Raises:
            PlanVerificationError: the CPU can read the memory.
        """
        allocator = self._allocators[device]
        if not isinstance(allocator, DeviceAllocator):
            raise PlanVerificationError(f"memory {quoted(device.name)} needs no copies")
        return allocator

    def copy(self, device: OrtDevice, source: DeviceTensor, target: DeviceTensor) -> None:
        """Copy a tensor within a memory that the CPU cannot read."""
        self.device_allocator(device).copy(source, target)

    def copy_s(self, device: OrtDevice, nbytes: int) -> float:
        """Return the estimated seconds of one copy between the CPU and ``device``."""
        allocator = self.device_allocator(device)
        return allocator.seconds_per_copy + nbytes * allocator.seconds_per_byte

    def placed(self, device: OrtDevice, constant: Tensor, name: str) -> Tensor | DeviceTensor:
        """Return a constant for its readers: itself, or a tensor in a device's memory.

        Raises:
            ExecutionProviderError: that memory does not take it.
        """
        if device.is_host_accessible:
            return constant
        source = constant if constant.flags.c_contiguous else constant.copy(order="C")
        if not device.is_divisible:
            with self._copying(device, f"{constant.dtype}{list(constant.shape)}", name):
                return self.device_allocator(device).upload(source)
        block = self.allocate(device, max(constant.nbytes, 1))
        target = DeviceTensor(
            memory=device.name, block=block, offset=0, shape=constant.shape, dtype=constant.dtype
        )
        with self._copying(device, str(target), name):
            self.device_allocator(device).copy_from_host(source, target)
        return target

    @contextmanager
    def _copying(self, device: OrtDevice, shown: str, name: str) -> Iterator[None]:
        """Turn errors inside into an ExecutionProviderError that names the constant."""
        try:
            yield
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            ep_name = self._providers[device]
            raise ExecutionProviderError(
                f"{ep_name}: constant {quoted(name)} ({shown}) could not be copied there:"
                f" {printable(error)}",
                ep_name=ep_name,
            ) from error


def memories_of(providers: Sequence[ExecutionProvider]) -> Memories:
    """Return the memories of a session's providers.

    Raises:
        ExecutionProviderError: an allocator of memory that the CPU cannot read cannot copy, or two
            allocators describe one memory differently.
    """
    allocators: dict[str, Allocator] = {}
    described: dict[str, tuple[object, str]] = {CPU_DEVICE.name: (True, "the CPU")}
    for provider in providers:
        if provider.name in allocators:
            continue
        allocator = allocators[provider.name] = allocator_of(provider)
        if not allocator.is_host_accessible and not isinstance(allocator, DeviceAllocator):
            raise ExecutionProviderError(
                f"{provider.name}: the CPU cannot read memory {quoted(allocator.name)}, and its"
                " allocator cannot copy; derive it from DeviceAllocator",
                ep_name=provider.name,
            )
        traits = (
            True
            if allocator.is_host_accessible
            else ("device", allocator.alignment, allocator.is_divisible)
        )
        first_traits, first_name = described.setdefault(allocator.name, (traits, provider.name))
        if first_traits != traits:
            raise ExecutionProviderError(
                f"{provider.name} and {first_name} mean different things by memory"
                f" {quoted(allocator.name)}: alignment or whether the CPU reads it differ; give"
                " each memory a name of its own",
                ep_name=provider.name,
            )
    return Memories(allocators)
