"""Worker process that tries a plug-in's context, and that alone ends if it crashes or hangs.

The parent's side is :mod:`ortpkg.runtime.session.plugin_context_loader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ortpkg.foundations.isolation.worker import Message
from ortpkg.graph.given_tensors import GivenTensors
from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype
from ortpkg.machine.json_form import ep_device_from_json
from ortpkg.runtime.engine.plain_context import PlainContext
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.ep_context.context_node import is_ep_context
from ortpkg.runtime.ep_context.ep_context_descriptor import descriptor_from_json
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.execution_provider import FusedNode
from ortpkg.runtime.providers.plugin_probe import load
from ortpkg.runtime.providers.session_settings import settings_from_json
from ortpkg.runtime.session.lent_engine import SessionGraphEngine
from ortpkg.runtime.session.options import SessionOptions

#: Largest total size of inputs, in bytes, with which a trial run is made.
_MOST_TRIAL_NBYTES = 256 << 20


def open_context_plugin(
    group: str,
    name: str,
    value: str,
    devices: Sequence[Mapping[str, Any]],
    options: Mapping[str, str],
    settings: Mapping[str, Any],
) -> Callable[[Message], Message]:
    """Import the plug-in, create its provider, and return the worker's request handler."""
    provider = load(group, name, value).create(
        [ep_device_from_json(device) for device in devices], dict(options)
    )
    provider.join_session(
        settings=settings_from_json(settings),
        ep_context=provider.ep_context,
        graph_engine=SessionGraphEngine(SessionOptions()),
    )
    return _Server(provider).answer


class _Server:
    """Server that loads a context and then runs it."""

    def __init__(self, provider: CompilingProvider) -> None:
        self._provider = provider
        self._loaded: tuple[CompiledPartition, FusedNode] | None = None

    def answer(self, request: Message) -> Message:
        if request.header["action"] == "import":
            fused = _fused_node(request)
            self._loaded = self._provider.import_context(_entry(request), fused), fused
        elif self._loaded is not None:
            compiled, fused = self._loaded
            inputs = trial_inputs(fused.body)
            if inputs is not None:
                compiled.compute(inputs, PlainContext(RunControl()))
        return Message()


def _entry(request: Message) -> ContextEntry:
    header = request.header
    parts = zip(header["parts"], request.buffers[1 + len(header["weights"]) :], strict=True)
    return ContextEntry(
        name=header["name"],
        descriptor=descriptor_from_json(header["descriptor"]),
        parts={name: memoryview(part).toreadonly() for name, part in parts},
        digests=header["digests"],
        arity=None if header["arity"] is None else tuple(header["arity"]),
    )


def _fused_node(request: Message) -> FusedNode:
    """Return the partition as the session has it, in a graph of its own."""
    header = request.header
    weights = zip(header["weights"], request.buffers[1:], strict=False)
    external = {
        name: np.frombuffer(data, numpy_dtype(ElementType(number))).reshape(shape)
        for (name, number, shape), data in weights
    }
    body = load_model(
        bytes(request.buffers[0]),
        external_data_folder=header["folder"] or None,
        replacements=GivenTensors(external=external),
    ).graph
    around = Graph("session", opset_imports=body.opset_imports)
    around.set_inputs(header["inputs"])
    around.set_outputs(header["outputs"])
    node = around.add_node(
        header["node"]["op_type"],
        header["inputs"],
        header["outputs"],
        domain=header["node"]["domain"],
        name=header["node"]["name"],
        since_version=1,
    )
    return FusedNode(node=node, body=body)


def trial_inputs(body: Graph) -> list[Any] | None:
    """Return zeros for the inputs of a loaded partition, in their order.

    None if a shape is unknown or too large to try.
    """
    context_node = next((node for node in body.nodes if is_ep_context(node)), None)
    names = body.inputs if context_node is None else context_node.inputs
    inputs: list[Any] = []
    nbytes = 0
    for name in names:
        if name in body.initializers:
            inputs.append(body.initializers[name].numpy())
            continue
        if not name:
            inputs.append(None)
            continue
        declared = body.type_of(name)
        if not isinstance(declared, TensorType) or declared.shape is None:
            return None
        sizes = [size for size in declared.shape if isinstance(size, int)]
        dtype = numpy_dtype(declared.element_type)
        nbytes += prod(sizes) * dtype.itemsize
        if len(sizes) < len(declared.shape) or nbytes > _MOST_TRIAL_NBYTES:
            return None
        inputs.append(np.zeros(sizes, dtype))
    return inputs
