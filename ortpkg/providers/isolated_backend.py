"""In a worker: a native library that compiles or loads one model, for its parent's runs.

Loads numpy and that library, and nothing else that takes long. The parent's side is
:mod:`ortpkg.providers.isolated_model`; both share how arrays cross over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

import numpy as np

from ortpkg.devices.hardware import EpDevice
from ortpkg.devices.json_form import ep_device_from_json
from ortpkg.errors import ExecutionProviderError, OrtpkgError, quoted
from ortpkg.isolation.worker import Buffer, Message
from ortpkg.providers.native_library import (
    CompiledModel,
    ContextLibrary,
    NativeLibrary,
    NativeModel,
    Part,
    WeightlessLibrary,
)
from ortpkg.providers.session_settings import settings_from_json

_TEXT = "text"


def open_backend(
    ep_name: str, backend: str, options: Mapping[str, str], ep_device: Mapping[str, Any] | None
) -> Callable[[Message], Message]:
    """The worker's handler. The library is loaded here, and raises here what it does not know."""
    devices = [] if ep_device is None else [ep_device_from_json(ep_device)]
    return _Server(_library(ep_name, backend, options, devices)).answer


def _library(
    ep_name: str, backend: str, options: Mapping[str, str], devices: Sequence[EpDevice]
) -> NativeLibrary:
    try:
        if backend == "openvino":
            from ortpkg.providers.openvino_library import (
                OpenVinoLibrary,  # one of the two is enough
            )

            return OpenVinoLibrary(ep_devices=devices, options=options)
        from ortpkg.providers.onnxruntime_contexts import open_onnxruntime
    except OrtpkgError:
        raise
    except Exception as error:  # a damaged installation raises more than ImportError
        raise ExecutionProviderError(
            f"the library {backend} cannot be loaded: {quoted(error)}", ep_name=ep_name
        ) from error
    return open_onnxruntime(ep_name, ep_devices=devices, options=options)


class _Server:
    """Answers requests about one model.

    The parent checks every limit, and ends this process where one is passed.
    """

    def __init__(self, library: NativeLibrary) -> None:
        self._library = library
        self._compiled: CompiledModel | None = None

    def answer(self, request: Message) -> Message:
        """Does what ``action`` in the request's header says with the library."""
        match request.header["action"]:
            case "open":
                self._library.use_settings(settings_from_json(request.header["settings"]))
                self._library.opened()
            case "compile":
                self._compiled = self._library.compile_model(_model_of(request))
            case "import":
                assert isinstance(self._library, ContextLibrary)
                self._compiled = self._library.import_model(_parts_of(request))
            case "import_member":
                assert isinstance(self._library, WeightlessLibrary)
                self._compiled = self._library.import_member(_parts_of(request), None)
            case "describe":
                found = self._library.describe_environment()
                return Message(header={"environment": None if found is None else found.to_json()})
            case action:
                assert self._compiled is not None
                return self._answer_of(self._compiled, action, request)
        return Message()

    def _answer_of(self, compiled: CompiledModel, action: str, request: Message) -> Message:
        if action == "export":
            assert isinstance(self._library, ContextLibrary)
            kept = self._library.export_model(compiled, _model_of(request))
            return Message(header={"parts": list(kept)}, buffers=list(kept.values()))
        if action == "placement":
            places = [
                {**asdict(place), "node_names": sorted(place.node_names)}
                for place in compiled.get_placement()
            ]
            return Message(header={"places": places})
        return pack_arrays(compiled.compute(unpack_arrays(request), _UnlimitedRun()))


def _parts_of(request: Message) -> dict[str, Part]:
    parts = zip(request.header["parts"], request.buffers, strict=True)
    return {name: memoryview(part) for name, part in parts}


def _model_of(request: Message) -> NativeModel:
    header = request.header
    return NativeModel(
        data=bytes(request.buffers[0]),
        inputs=tuple(header["inputs"]),
        outputs=tuple(header["outputs"]),
        config_entries=header.get("config_entries", {}),
        is_kept=header.get("is_kept", False),
    )


class _UnlimitedRun:
    """A run that nobody ends from inside."""

    is_watched = False
    is_memory_limited = False

    def check_allocation(self, nbytes: int) -> None: ...

    def check_cancelled(self) -> None: ...


def pack_arrays(arrays: Sequence[Any], *, action: str = "") -> Message:
    """A message with arrays of numbers (their bytes) and of texts (as JSON)."""
    kinds: list[tuple[str, tuple[int, ...]]] = []
    buffers: list[Buffer] = []
    for each in arrays:
        array = np.asarray(each)
        if array.dtype.kind in "OUS":
            kinds.append((_TEXT, array.shape))
            buffers.append(json.dumps([_text_of(text) for text in array.reshape(-1)]).encode())
        else:
            kinds.append((array.dtype.str, array.shape))
            buffers.append(
                np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
            )
    return Message(header={"action": action, "arrays": kinds}, buffers=buffers)


def unpack_arrays(message: Message) -> list[np.ndarray[Any, Any]]:
    """The arrays of a message; they own the memory that was received.

    ValueError where sizes do not fit.
    """
    return [
        _array(kind, tuple(shape), buffer)
        for (kind, shape), buffer in zip(message.header["arrays"], message.buffers, strict=True)
    ]


def _array(kind: str, shape: tuple[int, ...], buffer: Buffer) -> np.ndarray[Any, Any]:
    if kind != _TEXT:
        return np.frombuffer(buffer, np.dtype(kind), prod(shape)).reshape(shape)
    flat = np.empty(prod(shape), dtype=object)
    flat[:] = json.loads(bytes(buffer))
    return flat.reshape(shape)


def _text_of(text: Any) -> str:
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)
