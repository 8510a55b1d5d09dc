"""Additions to session options: tensors, providers, sizes of dimensions, functions for contexts.

Names and meaning are onnxruntime's. Except for the names of execution providers, nothing is checked
before a session is created with the options. Imports neither numpy nor onnx.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    LoadCancelledError,
    SessionError,
    UnknownExecutionProviderError,
    quoted,
)
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_data import (
    ContextDataFunctions,
    ContextReadFunction,
    ContextWriteFunction,
    checked_function,
    checked_size,
)
from ortpkg.runtime.providers.missing_libraries import absent_library_text
from ortpkg.runtime.session.values.known_attributes import KnownAttributesOnly
from ortpkg.runtime.session.values.onnxruntime_enums import OrtExecutionProviderDevicePolicy
from ortpkg.runtime.session.values.ort_ep_device import OrtEpDevice, as_ep_device

if TYPE_CHECKING:
    from ortpkg.runtime.session.device_policy import DevicePolicy, PolicyDelegate
    from ortpkg.runtime.session.values.ort_value import OrtValue

_LARGEST_SIZE = (1 << 63) - 1


@dataclass(slots=True)
class _Flag:
    """A flag that a caller's options share with their copies."""

    is_set: bool = False


@dataclass(slots=True, kw_only=True)
class OptionAdditions(KnownAttributesOnly):
    """Part of the session options that is set by method calls."""

    _free_dimensions: dict[str, int] = field(default_factory=dict, repr=False)
    _free_denotations: dict[str, int] = field(default_factory=dict, repr=False)
    _shared_initializers: dict[str, OrtValue] = field(
        default_factory=dict, repr=False, compare=False
    )
    _external_initializers: dict[str, OrtValue] = field(
        default_factory=dict, repr=False, compare=False
    )
    _external_files: dict[str, memoryview] = field(default_factory=dict, repr=False, compare=False)
    _providers: list[tuple[str, tuple[EpDevice, ...], dict[str, str]]] = field(
        default_factory=list, repr=False
    )
    _policy: DevicePolicy | None = field(default=None, repr=False)
    _context_data: ContextDataFunctions = field(
        default=ContextDataFunctions(), repr=False, compare=False
    )
    _load_cancellation: _Flag = field(default_factory=_Flag, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy that later changes do not affect; it shares the tensors."""
        copied = copy.copy(self)
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, dict | list):
                setattr(copied, name, value.copy())
        return copied

    # --- dimensions -------------------------------------------------------------------------------

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix a symbolic dimension to a size.

        Raises:
            InvalidSessionOptionError: the size is negative.
        """
        self._free_dimensions[name] = _size(name, value)

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the dimensions with a denotation, such as "DATA_BATCH", to a size.

        Raises:
            InvalidSessionOptionError: the size is negative.
        """
        self._free_denotations[denotation] = _size(denotation, value)

    @property
    def free_dimension_overrides(self) -> Mapping[str, int]:
        """Symbolic dimension → size."""
        return MappingProxyType(self._free_dimensions)

    @property
    def free_denotation_overrides(self) -> Mapping[str, int]:
        """Denotation of a dimension → size."""
        return MappingProxyType(self._free_denotations)

    # --- tensors ----------------------------------------------------------------------------------

    def add_initializer(self, name: str, ort_value: OrtValue) -> None:
        """Use ``ort_value`` instead of the initializer of this name.

        It is not copied, and must not change while a session uses it. All sessions with these
        options share it. A model without such an initializer ignores it.

        Raises:
            InvalidSessionOptionError: the name has a value already, or the value is not a tensor.
        """
        if not name or name in self._shared_initializers:
            raise InvalidSessionOptionError(
                f"initializer {quoted(name)} was added before, or has no name", key=name
            )
        _check_tensor(name, ort_value)
        self._shared_initializers[name] = ort_value

    def add_external_initializers(
        self, names: Sequence[str], ort_values: Sequence[OrtValue]
    ) -> None:
        """Use tensors instead of initializers in other files, which are then not opened.

        Raises:
            InvalidSessionOptionError: the numbers of names and values differ, a name has a value
                already, or a value is not a tensor.
        """
        _check_counts(names, ort_values)
        for name, ort_value in zip(names, ort_values, strict=True):
            if not name or name in self._external_initializers:
                raise InvalidSessionOptionError(
                    f"{quoted(name)} was added before, or is no name", key=name
                )
            _check_tensor(name, ort_value)
            self._external_initializers[name] = ort_value

    def add_external_initializers_from_files_in_memory(
        self,
        external_initializer_file_names: Sequence[str],
        buffers: Sequence[Any],
        lengths: Sequence[int],
    ) -> None:
        """Use files with external data from memory; then none is read from a disk.

        Args:
            external_initializer_file_names: names of the files, as in the model.
            buffers: contents of the files: objects with a contiguous buffer, which must not change.
            lengths: number of bytes to use of each buffer, at most.

        Raises:
            InvalidSessionOptionError: the numbers of names, buffers and lengths differ, or a name
                was added before.
        """
        names = external_initializer_file_names
        _check_counts(names, buffers)
        _check_counts(names, lengths)
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            if not name or name in self._external_files:
                raise InvalidSessionOptionError(
                    f"the file {quoted(name)} was added before, or has no name", key=name
                )
            content = memoryview(buffer).cast("B")
            self._external_files[name] = content[:length]

    @property
    def shared_initializers(self) -> Mapping[str, OrtValue]:
        """Tensors from :meth:`add_initializer`, by name."""
        return MappingProxyType(self._shared_initializers)

    @property
    def external_initializers(self) -> Mapping[str, OrtValue]:
        """Tensors from :meth:`add_external_initializers`, by name."""
        return MappingProxyType(self._external_initializers)

    @property
    def external_files(self) -> Mapping[str, memoryview]:
        """Contents from :meth:`add_external_initializers_from_files_in_memory`, by file name."""
        return MappingProxyType(self._external_files)

    # --- execution providers ----------------------------------------------------------------------

    def add_provider(
        self, provider_name: str, provider_options: Mapping[str, str] | None = None
    ) -> None:
        """Add an execution provider behind those added before.

        A session's ``providers`` take precedence.

        Raises:
            UnknownExecutionProviderError: it is not available here.
            InvalidSessionOptionError: it was added before.
        """
        from ortpkg.runtime.providers.ep_registry import (
            find_factory,  # asks the libraries: only if a provider is named
        )

        factory = find_factory(provider_name)
        if not factory.is_available():
            raise UnknownExecutionProviderError(
                absent_library_text(provider_name, factory.backend), ep_name=provider_name
            )
        self._check_is_new(factory.ep_name)
        self._providers.append((factory.ep_name, (), _texts(provider_options)))

    def add_provider_for_devices(
        self,
        ep_devices: Sequence[EpDevice | OrtEpDevice],
        provider_options: Mapping[str, str] | None = None,
    ) -> None:
        """Add an execution provider, to run on devices that it offers.

        Raises:
            InvalidSessionOptionError: no devices, devices of several providers, or the provider was
                added before.
        """
        devices = tuple(as_ep_device(device) for device in ep_devices)
        names = {(device.ep_name, device.backend) for device in devices}
        if len(names) != 1:
            raise InvalidSessionOptionError(
                "add_provider_for_devices takes one or more devices of one execution provider, not"
                f" of {len(names)}",
                key="ep_devices",
            )
        self._check_is_new(devices[0].ep_name)
        self._providers.append((devices[0].ep_name, devices, _texts(provider_options)))

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Let a policy choose the devices if no execution provider is named or added.

        Raises:
            TypeError: ``policy`` is not a policy.
        """
        try:
            self._policy = OrtExecutionProviderDevicePolicy(policy)
        except ValueError:
            raise TypeError(
                f"a policy is one of {', '.join(OrtExecutionProviderDevicePolicy.__members__)}, not"
                f" {quoted(policy)}"
            ) from None

    def set_provider_selection_policy_delegate(self, delegate: PolicyDelegate) -> None:
        """Let a function choose the devices if no execution provider is named or added.

        It is called as ``delegate(ep_devices, model_metadata, runtime_metadata, max_selections)``,
        and returns the devices that the session should use, in order.

        Raises:
            TypeError: ``delegate`` cannot be called.
        """
        if not callable(delegate):
            raise TypeError(f"a delegate is a function, not {type(delegate).__name__}")
        self._policy = delegate

    @property
    def provider_selection_policy(self) -> DevicePolicy | None:
        """The policy or function that chooses the devices; None if none was set."""
        return self._policy

    def has_providers(self) -> bool:
        """Return True if an execution provider was added, or a policy was set."""
        return bool(self._providers) or self._policy is not None

    def _check_is_new(self, ep_name: str) -> None:
        if ep_name in {name for name, _, _ in self._providers}:
            raise InvalidSessionOptionError(f"{ep_name} was added before", key=ep_name)

    @property
    def requested_providers(
        self,
    ) -> tuple[tuple[str, tuple[EpDevice, ...], Mapping[str, str]], ...]:
        """The EPs that were added, in order: name, devices (empty: added by name), options."""
        return tuple(self._providers)

    # --- compiled contexts ------------------------------------------------------------------------

    def set_ep_context_data_read_func(
        self, read_func: ContextReadFunction, max_data_size: int
    ) -> None:
        """Read the contexts that EPContext nodes name from a function instead of from files.

        Contexts of packages, which are checked first, are still read from their files, as are those
        that only onnxruntime itself reads.

        Args:
            read_func: called with the name in the model, and a buffer for the data
                (:class:`~ortpkg.runtime.ep_context.ep_context_data.OrtEpContextDataBuffer`), which
                it allocates once and fills. Its exceptions make the session fail (EpContextError).
            max_data_size: largest size of one context in bytes.

        Raises:
            TypeError, UsageError: wrong arguments.
        """
        function, nbytes = checked_function(read_func), checked_size(max_data_size)
        self._context_data = replace(self._context_data, read_function=function, max_nbytes=nbytes)

    def clear_ep_context_data_read_func(self) -> None:
        """Remove the function: contexts are read from files again."""
        self._context_data = replace(self._context_data, read_function=None)

    def set_ep_context_data_write_func(self, write_func: ContextWriteFunction) -> None:
        """Pass the contexts that a session makes to a function instead of writing them to files.

        The function gets the name that the model has for the data, and an
        :class:`~ortpkg.runtime.ep_context.ep_context_data.OrtEpContextData`. Its exceptions make
        the session fail (EpContextWriteError). onnxruntime has this at its ModelCompiler only.

        Raises:
            TypeError, UsageError: ``write_func`` is not a function.
        """
        self._context_data = replace(
            self._context_data, write_function=checked_function(write_func)
        )

    def clear_ep_context_data_write_func(self) -> None:
        """Remove the function: contexts are written to files again."""
        self._context_data = replace(self._context_data, write_function=None)

    @property
    def context_data_functions(self) -> ContextDataFunctions:
        """The functions that read and write contexts."""
        return self._context_data

    # --- the rest ---------------------------------------------------------------------------------

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Stop the creation of sessions with these options at their next stage.

        Any thread may call it; the sessions raise LoadCancelledError.
        """
        self._load_cancellation.is_set = bool(is_cancelled)

    def check_not_cancelled(self) -> None:
        """Raise LoadCancelledError if :meth:`set_load_cancellation_flag` was called with True."""
        if self._load_cancellation.is_set:
            raise LoadCancelledError(
                "the making of the session was cancelled (set_load_cancellation_flag)"
            )

    def register_custom_ops_library(self, library_path: str) -> None:
        """Raise SessionError: native operators are written against onnxruntime's kernels."""
        raise SessionError(
            f"{quoted(library_path)} is not loaded: native libraries of operators are written"
            " against onnxruntime's own kernels; kernels of custom operators are written in Python"
            " here"
        )


def _size(key: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"dimension {key!r} has a whole number, not {type(value).__name__}")
    if not 0 <= value <= _LARGEST_SIZE:
        raise InvalidSessionOptionError(
            f"dimension {quoted(key)} cannot be {quoted(value)}", key=key
        )
    return value


def _check_counts(names: Sequence[str], values: Sequence[Any]) -> None:
    if len(names) != len(values):
        raise InvalidSessionOptionError(
            f"{len(names)} names and {len(values)} values do not go together", key="names"
        )


def _check_tensor(name: str, value: OrtValue) -> None:
    if not (hasattr(value, "is_tensor") and value.is_tensor()):
        raise InvalidSessionOptionError(
            f"initializer {quoted(name)} must be an OrtValue with a tensor", key=name
        )


def _texts(options: Mapping[str, str] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (options or {}).items()}
