"""A partition that runs node by node on our kernels, with its constants folded and laid out as the kernels want them.

It is what :class:`~ortpkg.providers.prepack_execution_provider.PrepackExecutionProvider` compiles a partition to.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ortpkg.errors import EpContextError, LimitExceededError, OrtpkgError, RunError, printable, quoted
from ortpkg.graph.graph import ArrayInitializer, Graph, Node
from ortpkg.graph.schemas import constraint_types
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import TensorType, element_type_of
from ortpkg.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, Tensor, Value
from ortpkg.kernels.op_kernel_info import NodeKernelInfo, make_compute
from ortpkg.kernels.ownership import owned

#: Folding a dequantized weight would make it four times as large.
_NEVER_FOLDED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
_FREE_NBYTES = 1 << 20
_MOST_FOLDED_NBYTES = 256 << 20
_ABSENT = -1


class _Step(NamedTuple):
    """One node: positions of its inputs and outputs among the values, and of the values that die with it."""

    node: str
    compute: Compute
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    releases: tuple[int, ...]


@dataclass(slots=True)
class _Meter:
    """Bytes that one run has asked for and not given back, on top of what the engine counts."""

    context: OpKernelContext
    nbytes: int = 0


class _NodeContext:
    """OpKernelContext of one node of the partition: outputs are new arrays, under the limits of the engine's run."""

    def __init__(self, meter: _Meter) -> None:
        self._meter = meter
        self.asked_nbytes = 0

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:  # noqa: ARG002
        nbytes = math.prod(shape) * dtype.itemsize
        self.check_allocation(nbytes)
        self._meter.nbytes += nbytes
        self.asked_nbytes += nbytes
        return np.empty(shape, dtype)

    def check_allocation(self, nbytes: int) -> None:
        self._meter.context.check_allocation(self._meter.nbytes + nbytes)

    @property
    def is_watched(self) -> bool:
        return self._meter.context.is_watched

    def check_cancelled(self) -> None:
        self._meter.context.check_cancelled()

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:  # noqa: ARG002
        raise RunError("a prepacked partition has no nodes with sub-graphs")


class _PackingInfo(NodeKernelInfo):
    """OpKernelInfo that hands out layouts that were kept, and keeps those that are made."""

    def __init__(self, graph: Graph, node: Node, position: int, kept: Mapping[str, Tensor], packed: dict[str, Tensor]):
        super().__init__(graph, node)
        self._position = position
        self._kept = kept
        self._packed = packed

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        key = f"{self._position}:{name}"
        if key not in self._packed:
            found = self._kept.get(key)
            array = np.ascontiguousarray(make()) if found is None else found
            array.flags.writeable = False
            self._packed[key] = array
        return self._packed[key]


class PrepackedPartition:
    """A partition, ready to run. Thread-safe: a run has values of its own.

    Attributes:
        graph: what it computes; its initializers are what the kernels read.
        packed: "node position:name" → a constant in the layout that the node's kernel computes with.
    """

    def __init__(self, graph: Graph, registry: KernelRegistry, kept: Mapping[str, Tensor] | None = None) -> None:
        """
        Args:
            graph: every node has a kernel in ``registry`` and no sub-graphs.
            registry: whose kernels it runs on.
            kept: layouts that were made before; those that are missing are made.

        Raises EpContextError where a node has no kernel, InvalidGraphError where its attributes do not fit.
        """
        self.graph = graph
        self.packed: dict[str, Tensor] = {}
        order = [graph.node(index) for index in topological_order(graph)]
        computes = [
            make_compute(
                graph,
                node,
                _kernel_of(graph, node, registry),
                _PackingInfo(graph, node, position, kept or {}, self.packed),
            )
            for position, node in enumerate(order)
        ]
        constants = {name: initializer.numpy() for name, initializer in graph.initializers.items()}
        names = dict.fromkeys(
            (*graph.inputs, *constants, *(value for node in order for value in node.outputs if value))
        )
        self._slots = {name: slot for slot, name in enumerate(names)}
        self._steps = self._make_steps(order, computes, frozenset(constants))
        self._template: list[Value] = [constants.get(name) for name in names]
        self._inputs = tuple(self._slots[name] for name in graph.inputs)
        self._outputs = tuple(self._slots[name] for name in graph.outputs)
        self._mappings = _mappings((*constants.values(), *self.packed.values()))

    def compute(self, inputs: Sequence[Value], context: OpKernelContext) -> Sequence[Value]:
        """Runs all nodes in order. Outputs share memory with nothing.

        Raises RunError with the node's name where a kernel fails, EpContextError where the context's file became
        shorter: what is gone cannot be read.
        """
        self._check_mappings()
        values = self._template.copy()
        for slot, value in zip(self._inputs, inputs, strict=True):
            values[slot] = value
        meter = _Meter(context)
        charges: dict[int, int] = {}
        for step in self._steps:
            if context.is_watched:
                context.check_cancelled()
            node_context = _NodeContext(meter)
            results = _run(step, node_context, [None if slot == _ABSENT else values[slot] for slot in step.inputs])
            for slot, result in zip(step.outputs, results, strict=False):
                if slot != _ABSENT:
                    values[slot] = result
                    charges[slot], node_context.asked_nbytes = node_context.asked_nbytes, 0
            for slot in step.releases:
                values[slot] = None
                meter.nbytes -= charges.pop(slot, 0)
        # What nobody may write to is a constant, or a view of one.
        found = [values[slot] for slot in self._outputs]
        return owned([each if _is_writeable(each) else np.array(each) for each in found], list(inputs))

    def _make_steps(
        self, order: Sequence[Node], computes: Sequence[Compute], constants: frozenset[str]
    ) -> tuple[_Step, ...]:
        last: dict[str, int] = {}
        for position, node in enumerate(order):
            last.update({value: position for value in (*node.inputs, *node.outputs) if value})
        stays = {*constants, *self.graph.outputs}
        dies: dict[int, list[int]] = {}
        for value, position in last.items():
            if value not in stays:
                dies.setdefault(position, []).append(self._slots[value])
        return tuple(
            _Step(
                node=str(node),
                compute=compute,
                inputs=tuple(self._slots[value] if value else _ABSENT for value in node.inputs),
                outputs=tuple(self._slots[value] if value else _ABSENT for value in node.outputs),
                releases=tuple(dies.get(position, ())),
            )
            for position, (node, compute) in enumerate(zip(order, computes, strict=True))
        )

    def _check_mappings(self) -> None:
        for mapping in self._mappings:
            if mapping.size() < len(mapping):
                raise EpContextError(
                    "the context's file became shorter while the session was open; replace files by renaming new ones "
                    "over them",
                    ep_name="PrepackExecutionProvider",
                    partition_name=self.graph.name,
                )


def fold_constants(graph: Graph, registry: KernelRegistry) -> None:
    """Computes, in place, nodes whose inputs are all constant, and drops constants that nobody needs any more.

    A node whose result would be much larger than its inputs stays, and so does one that fails: the run will say why.
    """
    for index in topological_order(graph):
        node = graph.node(index)
        constants = [graph.constant(value) if value else None for value in node.inputs]
        is_constant = all(
            constant is not None or not value for value, constant in zip(node.inputs, constants, strict=True)
        )
        makes_output = any(graph.is_output(value) for value in node.outputs)
        if not any(node.inputs) or not is_constant or makes_output or node.op_type in _NEVER_FOLDED:
            continue
        given = sum(constant.nbytes for constant in constants if constant is not None)
        most = min(max(2 * given, _FREE_NBYTES), _MOST_FOLDED_NBYTES)
        step = _Step(str(node), make_compute(graph, node, _kernel_of(graph, node, registry)), (), (), ())
        try:
            results = _run(step, _NodeContext(_Meter(_FoldingContext(most))), [c and c.numpy() for c in constants])
        except OrtpkgError:
            continue
        if not all(isinstance(result, np.ndarray) and result.dtype != object for result in results):
            continue
        graph.remove_node(node)
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                array = np.array(result, order="C")
                array.flags.writeable = False
                graph.add_initializer(ArrayInitializer(name, array, element_type_of(array.dtype)))
                graph.set_type(name, TensorType(element_type_of(array.dtype), array.shape))
    for name in list(graph.initializers):
        if not graph.consumers_of(name) and not graph.is_output(name):
            graph.remove_initializer(name)


class _FoldingContext:
    """OpKernelContext for constants: nothing but a limit."""

    is_watched = False

    def __init__(self, most_nbytes: int) -> None:
        self._most_nbytes = most_nbytes

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:  # noqa: ARG002
        self.check_allocation(math.prod(shape) * dtype.itemsize)
        return np.empty(shape, dtype)

    def check_allocation(self, nbytes: int) -> None:
        if nbytes > self._most_nbytes:
            raise LimitExceededError(f"{nbytes} bytes are too many for a constant", limit="memory")

    def check_cancelled(self) -> None:
        return

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:  # noqa: ARG002
        raise RunError("a node with sub-graphs is no constant")


def _run(step: _Step, context: _NodeContext, arguments: Sequence[Value]) -> Sequence[Value]:
    try:
        with np.errstate(all="ignore"):
            result = step.compute(context, *arguments)
    except OrtpkgError:
        raise
    except Exception as error:
        raise RunError(f"{step.node} failed: {printable(error)}", node_name=step.node) from error
    return result if isinstance(result, tuple) else (result,)


def _kernel_of(graph: Graph, node: Node, registry: KernelRegistry) -> KernelDef:
    found = registry.try_find_kernel(node, constraint_types(graph, node))
    if found is None or node.subgraphs:
        raise EpContextError(
            f"there is no kernel for {node} of the partition {quoted(graph.name)}", ep_name="PrepackExecutionProvider"
        )
    return found


def _is_writeable(value: Value) -> bool:
    return not isinstance(value, np.ndarray) or bool(value.flags.writeable)


def _mappings(arrays: Sequence[Tensor]) -> tuple[mmap.mmap, ...]:
    """The mapped files that arrays lie in, each once."""
    found: dict[int, mmap.mmap] = {}
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        owner = base.obj if isinstance(base, memoryview) else base
        if isinstance(owner, mmap.mmap):
            found[id(owner)] = owner
    return tuple(found.values())
