"""In a worker: a native library's provider, which compiles one model and computes with it for the parent.

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
from ortpkg.isolation.worker import Buffer, Message
from ortpkg.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.providers.whole_model import CompiledModel, WholeModel, WholeModelProvider

_TEXT = "text"


def open_backend(
    ep_name: str, backend: str, options: Mapping[str, str], ep_options: Mapping[str, str] | None
) -> Callable[[Message], Message]:
    """The worker's handler. The library is loaded here, and raises here what it does not know."""
    devices = [] if ep_options is None else [EpDevice(ep_name=ep_name, device=None, ep_options=ep_options)]
    factory = OpenVinoEpFactory() if backend == OpenVinoEpFactory.backend else OnnxRuntimeEpFactory(ep_name)
    provider = factory.create(devices, options)
    assert isinstance(provider, WholeModelProvider)
    return _Server(provider).answer


class _Server:
    """Answers requests about one model. The parent checks every limit, and ends this process where one is passed."""

    def __init__(self, provider: WholeModelProvider) -> None:
        self._provider = provider
        self._compiled: CompiledModel | None = None

    def answer(self, request: Message) -> Message:
        action: str = request.header["action"]
        if action == "open":
            return Message()
        if action == "compile":
            inputs, outputs = tuple(request.header["inputs"]), tuple(request.header["outputs"])
            self._compiled = self._provider.compile_model(
                WholeModel(data=bytes(request.buffers[0]), inputs=inputs, outputs=outputs)
            )
            return Message()
        assert self._compiled is not None
        if action == "placement":
            places = [asdict(place) for place in self._compiled.get_placement()]
            return Message(header={"places": [{**each, "node_names": sorted(each["node_names"])} for each in places]})
        return pack_arrays(self._compiled.compute(unpack_arrays(request), _UnlimitedContext()))


class _UnlimitedContext:
    """What a compiled model sees of a run that nobody ends from inside."""

    is_watched = False

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        raise NotImplementedError("a whole model makes its own outputs")

    def run_subgraph(self, attribute: str, feeds: list[Any]) -> list[Any]:
        raise NotImplementedError("a whole model has no sub-graphs of ours")

    def check_allocation(self, nbytes: int) -> None: ...

    def check_cancelled(self) -> None: ...


def pack_arrays(arrays: Sequence[Any], **header: Any) -> Message:
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
            buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
    return Message(header={**header, "arrays": kinds}, buffers=buffers)


def unpack_arrays(message: Message) -> list[np.ndarray[Any, Any]]:
    """The arrays of a message; they own the memory that was received. ValueError where sizes do not fit."""
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
