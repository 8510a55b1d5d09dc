"""Worker with a native library that compiles or loads one model, for its parent's runs.

It loads numpy and that library, and nothing else that takes long. The parent's side is
:mod:`ortpkg.runtime.providers.isolated_model`; both share the encoding of arrays.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.errors import ExecutionProviderError, OrtpkgError, quoted
from ortpkg.foundations.isolation.worker import Buffer, Message
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.json_form import ep_device_from_json
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.providers.native_library import (
    CompiledModel,
    ContextLibrary,
    FileRange,
    NativeLibrary,
    NativeModel,
    NativeWeight,
    Part,
    WeightlessLibrary,
    replaced_file_error,
)
from ortpkg.runtime.providers.session_settings import settings_from_json

_TEXT = "text"
#: Key in a request about a model: size of its weights in files, which no buffer contains.
FILES_NBYTES = "files_nbytes"


def open_backend(
    ep_name: str, backend: str, options: Mapping[str, str], ep_device: Mapping[str, Any] | None
) -> Callable[[Message], Message]:
    """Load the library, and return the worker's handler of requests.

    Raises:
        ExecutionProviderError: the library cannot be loaded, or lacks the EP.
    """
    devices = [] if ep_device is None else [ep_device_from_json(ep_device)]
    return _Server(_library(ep_name, backend, options, devices)).answer


def _library(
    ep_name: str, backend: str, options: Mapping[str, str], devices: Sequence[EpDevice]
) -> NativeLibrary:
    try:
        if backend == "openvino":
            from ortpkg.runtime.providers.openvino_library import (
                OpenVinoLibrary,  # one of the two is enough
            )

            return OpenVinoLibrary(ep_devices=devices, options=options)
        from ortpkg.runtime.providers.onnxruntime_contexts import open_onnxruntime
    except OrtpkgError:
        raise
    except Exception as error:  # a damaged installation raises more than ImportError
        raise ExecutionProviderError(
            f"the library {backend} cannot be loaded: {quoted(error)}", ep_name=ep_name
        ) from error
    return open_onnxruntime(ep_name, ep_devices=devices, options=options)


class _Server:
    """Server of requests about one model.

    The parent checks every limit, and ends this process if one is passed.
    """

    def __init__(self, library: NativeLibrary) -> None:
        self._library = library
        self._compiled: CompiledModel | None = None

    def answer(self, request: Message) -> Message:
        """Do with the library what ``action`` in the request's header says."""
        match request.header["action"]:
            case "open":
                self._library.use_settings(settings_from_json(request.header["settings"]))
                self._library.opened()
            case "compile":
                self._compiled = self._library.compile_model(_model_of(request))
            case "import":
                assert isinstance(self._library, ContextLibrary)
                self._compiled = self._library.import_model(*_parts_of(request))
            case "import_member":
                assert isinstance(self._library, WeightlessLibrary)
                self._compiled = self._library.import_member(_parts_of(request)[0], None)
            case "describe":
                environment = self._library.describe_environment()
                return Message(
                    header={"environment": None if environment is None else environment.to_json()}
                )
            case "weight_form":
                return Message(header={"weight_form": self._library.weight_form.value})
            case action:
                assert self._compiled is not None
                return self._answer_of(self._compiled, action, request)
        return Message()

    def _answer_of(self, compiled: CompiledModel, action: str, request: Message) -> Message:
        if action == "export":
            assert isinstance(self._library, ContextLibrary)
            parts = self._library.export_model(compiled, _model_of(request))
            return Message(header={"parts": list(parts)}, buffers=list(parts.values()))
        if action == "placement":
            placements = [
                {**asdict(placement), "node_names": sorted(placement.node_names)}
                for placement in compiled.get_placement()
            ]
            return Message(header={"placements": placements})
        return pack_arrays(compiled.compute(unpack_arrays(request), _UnlimitedRun()))


def parts_message(action: str, parts: Mapping[str, Part], file: PartsFile | None) -> Message:
    """Return a request about the parts of a context.

    Those in ``file`` cross over as its name, as long as the file is still there.
    """
    offsets = file.offsets if file is not None and file.is_same else {}
    ranges = {
        name: (offsets[name], memoryview(part).nbytes)
        for name, part in parts.items()
        if name in offsets
    }
    sent = {name: part for name, part in parts.items() if name not in ranges}
    header = {
        "action": action,
        "parts": list(sent),
        "ranges": ranges,
        FILES_NBYTES: sum(nbytes for _, nbytes in ranges.values()),
    }
    if file is not None and ranges:
        header |= {"path": str(file.path.absolute()), "stamp": list(file.stamp)}
    return Message(header=header, buffers=list(sent.values()))


def _parts_of(request: Message) -> tuple[dict[str, Part], PartsFile | None]:
    """Return the parts of a context, and the file which they are mapped from.

    Raises ModelFileError if that is not the one that the parent opened.
    """
    header = request.header
    received = zip(header["parts"], request.buffers, strict=True)
    parts: dict[str, Part] = {name: memoryview(part) for name, part in received}
    ranges = header["ranges"]
    if not ranges:
        return parts, None
    stamp = FileStamp(*header["stamp"])
    view = memoryview(_mapped(header["path"], stamp))
    parts |= {name: view[offset : offset + nbytes] for name, (offset, nbytes) in ranges.items()}
    offsets = {name: offset for name, (offset, _) in ranges.items()}
    return parts, PartsFile(path=Path(header["path"]), stamp=stamp, offsets=offsets)


def model_message(action: str, model: NativeModel) -> Message:
    """Return a request about a model: its message, and its weights in memory.

    Weights in files cross over as the files' names.
    """
    sent = [weight.data for weight in model.weights.values() if weight.file is None]
    header = {
        "action": action,
        "inputs": model.inputs,
        "outputs": model.outputs,
        "config_entries": dict(model.config_entries),
        "is_kept": model.is_kept,
        "weights": [
            (name, weight.element_type, weight.shape, weight.file and asdict(weight.file))
            for name, weight in model.weights.items()
        ],
        "folder": model.folder,
        "files": {path: list(stamp) for path, stamp in model.files.items()},
        FILES_NBYTES: model.weights_nbytes - sum(data.nbytes for data in sent),
    }
    return Message(header=header, buffers=[model.data, *sent])


def _model_of(request: Message) -> NativeModel:
    header = request.header
    data, *received = request.buffers
    return NativeModel(
        data=bytes(data),
        inputs=tuple(header["inputs"]),
        outputs=tuple(header["outputs"]),
        config_entries=header["config_entries"],
        is_kept=header["is_kept"],
        weights=dict(_weights_of(header["weights"], map(memoryview, received))),
        folder=header["folder"],
        files={path: FileStamp(*stamp) for path, stamp in header["files"].items()},
    )


def _weights_of(
    entries: Sequence[tuple[str, int, Sequence[int], Mapping[str, Any] | None]],
    received: Iterator[memoryview],
) -> Iterator[tuple[str, NativeWeight]]:
    """Yield the weights of a request: received, or mapped from their files."""
    mappings: dict[str, mmap.mmap] = {}
    for name, element_type, shape, file_json in entries:
        file = None
        if file_json is not None:
            file = FileRange(**{**file_json, "stamp": FileStamp(*file_json["stamp"])})
            if file.path not in mappings:
                mappings[file.path] = _mapped(file.path, file.stamp)
            view = memoryview(mappings[file.path])
            data = view[file.offset : file.offset + file.nbytes]
        else:
            data = next(received)
        yield (
            name,
            NativeWeight(element_type=element_type, shape=tuple(shape), data=data, file=file),
        )


def _mapped(path: str, stamp: FileStamp) -> mmap.mmap:
    """Map a file; ModelFileError if it is not the one that the parent opened."""
    with Path(path).open("rb") as opened:
        if not stamp.is_same_content(FileStamp.of(os.fstat(opened.fileno()))):
            raise replaced_file_error(path)
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


class _UnlimitedRun:
    """Run without limits of its own; the parent process ends it."""

    is_watched = False
    is_memory_limited = False

    def check_allocation(self, nbytes: int) -> None: ...

    def check_cancelled(self) -> None: ...


def pack_arrays(arrays: Sequence[Any], *, action: str = "") -> Message:
    """Return a message with arrays of numbers (as bytes) and of texts (as JSON)."""
    kinds: list[tuple[str, tuple[int, ...]]] = []
    buffers: list[Buffer] = []
    for value in arrays:
        array = np.asarray(value)
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
    """Return the arrays of a message; they own the memory that was received.

    Raises:
        ValueError: sizes do not fit.
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
