"""Providers that hand a whole model to a foreign library: claim everything or nothing, as one fused partition.

Only compiling tells for certain whether a library takes a model, so the claim is made by compiling; ``compile`` then
returns what was made. A model that the library refuses is left to the next provider, and the log says why.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import CompileError, InvalidSessionOptionError, LimitExceededError, OrtpkgError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.kernels.kernel_registry import KernelRegistry
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import (
    Allocator,
    BackendPlacement,
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)

if TYPE_CHECKING:
    import onnx

_log = logging.getLogger(__name__)

#: Understood by every release of both libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
_SOURCE_PLACES = ("Exception from ", "Check '")
#: protobuf's limit for one message; more needs external data.
_MOST_MODEL_NBYTES = (1 << 31) - 1

#: Element types that numpy has by itself, so that they cross the border to a library without conversion.
NUMERIC_TYPES: frozenset[ElementType] = frozenset(
    {
        ElementType.FLOAT,
        ElementType.DOUBLE,
        ElementType.FLOAT16,
        ElementType.INT8,
        ElementType.INT16,
        ElementType.INT32,
        ElementType.INT64,
        ElementType.UINT8,
        ElementType.UINT16,
        ElementType.UINT32,
        ElementType.UINT64,
        ElementType.BOOL,
    }
)


class CompiledModel(Protocol):
    """A model inside a foreign library."""

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        """Runs it on arrays in the order of its inputs; new arrays in the order of its outputs. Thread-safe.

        Ends early, with the error of ``context.check_cancelled``, where the run is to end.
        """
        ...

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Where the library really runs it; empty where it tells nothing beyond what was asked of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModel:
    """A model as a library reads it: ONNX bytes, and the names of its inputs and outputs in order."""

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class WholeModelProvider(ExecutionProvider):
    """Claims a main graph as one partition if the library compiles it. Sub-graphs go along inside their nodes."""

    #: Element types that may cross the border.
    border_types: frozenset[ElementType] = NUMERIC_TYPES

    def __init__(
        self, name: str, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, ep_devices=ep_devices, options=options)
        #: Compiled at the claim, by the fused node's name, until ``compile`` asks for them.
        self._claimed: dict[str, CompiledModel] = {}
        #: Handed out, by the fused node's name.
        self._compiled: dict[str, CompiledModel] = {}
        self._refusal = ""

    @abstractmethod
    def compile_model(self, model: WholeModel) -> CompiledModel:
        """Compiles with the library. Raises whatever the library raises."""

    @property
    def kernel_registry(self) -> KernelRegistry | None:
        return None

    def create_allocator(self) -> Allocator:
        # Brings every kernel of ours along, which a worker that only computes does not need.
        from ortpkg.providers.cpu_execution_provider import CPUAllocator

        return CPUAllocator()

    def get_capability(
        self,
        viewer: GraphViewer,
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002 - the library looks for itself
    ) -> list[ComputeCapability]:
        meta = self._meta_def(viewer)
        if meta is None:
            return []
        try:
            self._claimed[meta.name] = self._compile(viewer.graph, meta.inputs, meta.outputs)
        except (LimitExceededError, InvalidSessionOptionError):  # the caller's matter: no other provider mends it
            raise
        except OrtpkgError as error:
            self._refuse(str(error))
            return []
        return [ComputeCapability(node_indices=viewer.order, meta_def=meta)]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        """Hands out what the claim compiled; a partition that another made is compiled now. May raise CompileError."""
        found = []
        for fused in fused_nodes:
            compiled = self._claimed.pop(fused.node.name, None)
            if compiled is None:
                compiled = self._compile(fused.body, fused.body.inputs, fused.body.outputs)
            self._compiled[fused.node.name] = compiled
            found.append(NodeComputeInfo(compute=_compute, create_state=_hands_out(compiled)))
        return found

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:
        compiled = self._compiled.get(fused_node)
        return () if compiled is None else compiled.get_placement()

    def get_refusal(self) -> str:
        return "" if self._compiled else self._refusal

    def close(self) -> None:
        self._claimed.clear()
        self._compiled.clear()

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        _log.warning("%s takes no node: %s", self.name, reason)

    def _meta_def(self, viewer: GraphViewer) -> MetaDef | None:
        """The signature of the whole graph; None where it cannot be one partition of this provider."""
        graph = viewer.graph
        if graph.parent is not None or not viewer.order or any(node.execution_provider for node in viewer.nodes):
            return None
        inputs = tuple(name for name in graph.inputs if graph.consumers_of(name))
        outputs = tuple(dict.fromkeys(name for name in graph.outputs if graph.producer_of(name) is not None))
        foreign = [name for name in (*inputs, *outputs) if not self._crosses_border(graph, name)]
        if foreign:
            self._refuse(f"it cannot take or give values of the type of {quoted(foreign[0])}")
            return None
        name = graph.make_name(self.name.removesuffix("ExecutionProvider"))
        return MetaDef(name=name, inputs=inputs, outputs=outputs) if outputs else None

    def _crosses_border(self, graph: Graph, name: str) -> bool:
        found = graph.type_of(name)
        return isinstance(found, TensorType) and found.element_type in self.border_types

    def _compile(self, graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> CompiledModel:
        """CompileError with the library's own words where it refuses the model."""
        try:
            return self.compile_model(_whole_model(graph, inputs, outputs))
        except OrtpkgError:
            raise
        except Exception as error:
            raise CompileError(
                f"{self.name} cannot compile the model: {quoted(_words_of(error))}", ep_name=self.name
            ) from error


def _words_of(error: Exception) -> str:
    """A library's message in one line, without the places in its own source that OpenVINO puts first."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(_SOURCE_PLACES)]
    return " ".join(telling or [line for line in lines if line]) or type(error).__name__


def _compute(compiled: CompiledModel, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
    return compiled.compute(inputs, context)


def _hands_out(compiled: CompiledModel) -> Callable[[str], CompiledModel]:
    return lambda _node_name: compiled


def _whole_model(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> WholeModel:
    # onnx is not needed where a worker only computes.
    from ortpkg.graph.model import Model
    from ortpkg.graph.onnx_writer import to_model_proto

    proto = to_model_proto(Model(graph=graph, ir_version=_IR_VERSION))
    _keep(proto.graph.input, set(inputs))
    _keep(proto.graph.output, set(outputs))
    if proto.ByteSize() > _MOST_MODEL_NBYTES:
        raise ValueError(f"the model has {proto.ByteSize()} bytes; at most {_MOST_MODEL_NBYTES} can be handed over")
    return WholeModel(data=proto.SerializeToString(), inputs=tuple(inputs), outputs=tuple(outputs))


def _keep(values: Any, names: set[str]) -> None:
    """Removes what is not in ``names`` from a repeated field of ValueInfoProto, and what comes twice."""
    kept: list[onnx.ValueInfoProto] = [value for value in values if value.name in names]
    unique = list({value.name: value for value in kept}.values())
    del values[:]
    values.extend(unique)
