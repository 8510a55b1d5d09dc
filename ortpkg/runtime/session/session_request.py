"""Arguments of a session, serialized for a child process: model, options, providers, ..."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from ortpkg.foundations.errors import InvalidSessionOptionError
from ortpkg.foundations.isolation.worker import Buffer, Message
from ortpkg.graph.model_file import ModelSource
from ortpkg.machine.json_form import ep_device_from_json, ep_device_to_json
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_ENABLE, SHARE_EP_CONTEXTS
from ortpkg.runtime.session.crossing_values import pack_values, unpack_values
from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions
from ortpkg.runtime.session.session_providers import ProviderRequest
from ortpkg.runtime.session.values.onnxruntime_enums import ExecutionOrder
from ortpkg.runtime.session.values.ort_value import OrtValue

#: Options that are sent as numbers → the enumeration that the child makes of them.
_ENUMERATIONS: Mapping[str, Any] = {
    "graph_optimization_level": GraphOptimizationLevel,
    "execution_mode": ExecutionMode,
    "execution_order": ExecutionOrder,
}
_PLAIN_OPTIONS = (
    "intra_op_num_threads",
    "inter_op_num_threads",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "enable_cpu_mem_arena",
    "enable_profiling",
    "profile_file_prefix",
    "log_severity_level",
    "log_verbosity_level",
    "logid",
    "use_deterministic_compute",
    "use_per_session_threads",
    "memory_limit_nbytes",
    "timeout_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A session to create in a child process.

    Attributes:
        digests: SHA-256 of the contexts that may be loaded; None for all that the model names.
        registered: "module:object" of the plug-ins that the program itself registered.
        is_again: True if a child created it before, so that files to write once exist already.
    """

    source: ModelSource
    options: SessionOptions
    providers: ProviderRequest
    is_confined: bool = False
    digests: tuple[str, ...] | None = None
    registered: tuple[str, ...] = ()
    is_again: bool = False

    def message(self) -> Message:
        """Return the request as a message.

        Raises:
            InvalidSessionOptionError: an option that no other process can use.
        """
        buffers: list[Buffer] = []
        header = {
            "action": "make",
            "model": _model_header(self.source, buffers),
            "options": _options_header(self.options, buffers, is_again=self.is_again),
            "providers": _providers_header(self.providers),
            "is_confined": self.is_confined,
            "digests": self.digests,
            "registered": self.registered,
        }
        return Message(header=header, buffers=buffers)


def read_session_request(message: Message) -> SessionRequest:
    """Return the request of a message; the inverse of :meth:`SessionRequest.message`."""
    header = message.header
    buffers = list(message.buffers)
    source = header["model"] if header["model"] is not None else bytes(buffers.pop(0))
    return SessionRequest(
        source=source,
        options=_read_options(header["options"], buffers),
        providers=_read_providers(header["providers"]),
        is_confined=header["is_confined"],
        digests=None if header["digests"] is None else tuple(header["digests"]),
        registered=tuple(header["registered"]),
    )


def _model_header(source: ModelSource, buffers: list[Buffer]) -> str | None:
    """Return the path; None if the model's bytes are the first buffer."""
    if isinstance(source, str | os.PathLike):
        return os.path.abspath(source)  # noqa: PTH100 - links stay as they are named
    buffers.append(source.SerializeToString() if isinstance(source, onnx.ModelProto) else source)
    return None


# --- options --------------------------------------------------------------------------------------


def _options_header(
    options: SessionOptions, buffers: list[Buffer], *, is_again: bool
) -> dict[str, Any]:
    entries = dict(options.config_entries)
    if entries.get(SHARE_EP_CONTEXTS) == "1":
        raise InvalidSessionOptionError(
            f"sessions that share contexts ({SHARE_EP_CONTEXTS}) are of one process; make them with"
            " isolate=False",
            key=SHARE_EP_CONTEXTS,
        )
    functions = options.context_data_functions
    if functions.reader is not None or functions.writer is not None:
        raise InvalidSessionOptionError(
            "functions that give or take contexts are of this process; make the session with"
            " isolate=False",
            key="ep_context_data",
        )
    if is_again:
        entries.pop(CONTEXT_ENABLE, None)
    tensors = {**options.shared_initializers, **options.external_initializers}
    described, packed = pack_values([value.numpy() for value in tensors.values()])
    buffers += [*packed, *options.external_files.values()]
    return {
        "plain": {name: getattr(options, name) for name in _PLAIN_OPTIONS},
        "enumerations": {name: int(getattr(options, name)) for name in _ENUMERATIONS},
        "optimized_model_filepath": "" if is_again else os.fspath(options.optimized_model_filepath),
        "entries": entries,
        "free_dimensions": dict(options.free_dimension_overrides),
        "free_denotations": dict(options.free_denotation_overrides),
        "shared": list(options.shared_initializers),
        "external": list(options.external_initializers),
        "tensors": [described, len(packed)],
        "files": list(options.external_files),
        "requested": [
            [name, [ep_device_to_json(ep_device) for ep_device in devices], dict(own_options)]
            for name, devices, own_options in options.requested_providers
        ],
    }


def _read_options(header: Mapping[str, Any], buffers: Sequence[Buffer]) -> SessionOptions:
    options = SessionOptions()
    for key, value in header["entries"].items():
        options.add_session_config_entry(key, value)
    for name, value in header["plain"].items():
        setattr(options, name, value)
    for name, value in header["enumerations"].items():
        setattr(options, name, _ENUMERATIONS[name](value))
    options.optimized_model_filepath = header["optimized_model_filepath"]
    for name, size in header["free_dimensions"].items():
        options.add_free_dimension_override_by_name(name, size)
    for name, size in header["free_denotations"].items():
        options.add_free_dimension_override_by_denotation(name, size)
    described, count = header["tensors"]
    tensors = [OrtValue(np.asarray(data)) for data in unpack_values(described, buffers[:count])]
    for name, tensor in zip(header["shared"], tensors, strict=False):
        options.add_initializer(name, tensor)
    options.add_external_initializers(header["external"], tensors[len(header["shared"]) :])
    files = buffers[count:]
    lengths = [memoryview(file).nbytes for file in files]
    options.add_external_initializers_from_files_in_memory(header["files"], files, lengths)
    for name, devices, own_options in header["requested"]:
        if devices:
            options.add_provider_for_devices(
                [ep_device_from_json(device) for device in devices], own_options
            )
        else:
            options.add_provider(name, own_options)
    return options


# --- providers ------------------------------------------------------------------------------------


def _providers_header(request: ProviderRequest) -> dict[str, Any]:
    devices = request.ep_devices
    return {
        "providers": (
            None
            if request.providers is None
            else [_name_header(name) for name in request.providers]
        ),
        "provider_options": (
            None
            if request.provider_options is None
            else [dict(o) for o in request.provider_options]
        ),
        "ep_devices": (
            None
            if devices is None
            else [
                [ep_device_to_json(ep_device), dict(own_options)]
                for ep_device, own_options in devices
            ]
        ),
        "backend": request.backend,
        "falls_back": request.falls_back,
        "allows_fallback": request.allows_fallback,
    }


def _name_header(named: Any) -> Any:
    return [named[0], dict(named[1])] if isinstance(named, tuple) else named


def _read_providers(header: Mapping[str, Any]) -> ProviderRequest:
    request = ProviderRequest(
        providers=header["providers"],
        provider_options=header["provider_options"],
        backend=header["backend"],
        falls_back=header["falls_back"],
        allows_fallback=header["allows_fallback"],
    )
    if header["providers"] is not None:
        named = [
            (entry[0], entry[1]) if isinstance(entry, list) else entry
            for entry in header["providers"]
        ]
        request = replace(request, providers=named)
    if header["ep_devices"] is not None:
        devices = [
            (ep_device_from_json(device), own_options)
            for device, own_options in header["ep_devices"]
        ]
        request = replace(request, ep_devices=devices)
    return request
