"""Find the kernel of each node of a partitioned graph, or explain why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.foundations.ep_names import is_context_source_of
from ortpkg.foundations.errors import KernelNotFoundError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.operator_schemas import constraint_types
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.device_copies import copy_kernel_def, is_copy
from ortpkg.runtime.engine.fused_kernel import FusedKernel, fused_kernel_def
from ortpkg.runtime.ep_context.context_node import ep_context_attributes, is_ep_context
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.providers.execution_provider import ExecutionProvider

#: The engine's own backend, which compiles nothing, and the one with compiling providers of the
#: same names.
_EMBEDDED, _BRIDGE = "embedded", "onnxruntime"


def find_kernels(
    graph: Graph, providers: Sequence[ExecutionProvider], fused: Mapping[Node, FusedKernel]
) -> dict[int, KernelDef]:
    """Return the kernel definition of each node of a partitioned graph, by index.

    A node that was added after partitioning goes to the first provider that has a kernel for it.

    Raises:
        KernelNotFoundError: the provider of a node has no kernel for it.
    """
    by_name = {provider.name: provider for provider in providers}
    kernels: dict[int, KernelDef] = {}
    for node in graph.nodes:
        if node in fused:
            kernels[node.index] = fused_kernel_def(node, fused[node])
            continue
        if is_copy(node):
            kernels[node.index] = copy_kernel_def(node)
            continue
        types = constraint_types(graph, node)
        assigned = by_name.get(node.execution_provider)
        for provider in (assigned,) if assigned is not None else providers:
            definition = provider.find_kernel(node, types)
            if definition is not None:
                graph.assign(node, provider.name)
                kernels[node.index] = definition
                break
        else:
            raise no_kernel(graph, node, types, providers)
    return kernels


def no_kernel(
    graph: Graph,
    node: Node,
    bound_types: Mapping[str, ElementType],
    providers: Sequence[ExecutionProvider],
) -> KernelNotFoundError:
    """Return the error for a node for which none of ``providers`` has a kernel.

    ``bound_types``: type parameter of the operator → element type.
    """
    opset = graph.opset_imports.get(node.domain, node.since_version)
    types = tuple(
        f"{name}={element_type.name.lower()}" for name, element_type in bound_types.items()
    )
    asked = ", ".join(_shown(provider, providers) for provider in dict.fromkeys(providers))
    if is_ep_context(node):
        return KernelNotFoundError(
            f"EPContext node {quoted(node.name)} holds what {_source_of(node)} compiled, and "
            f"{_missing(node, providers)}; asked: {asked}",
            op_type=node.op_type,
            opset=opset,
            types=types,
            node_name=node.name,
        )
    return KernelNotFoundError(
        f"no kernel for operator {quoted(node.op_type)} of domain"
        f" {quoted(node.domain or 'ai.onnx')}, opset {opset}, types"
        f" ({', '.join(types) or 'unknown'}), at node {quoted(node.name)}; asked: {asked}",
        op_type=node.op_type,
        opset=opset,
        types=types,
        node_name=node.name,
    )


def _shown(provider: ExecutionProvider, providers: Sequence[ExecutionProvider]) -> str:
    """Return the provider's name, with the backend if another provider has the same name."""
    has_rivals = any(other.name == provider.name and other is not provider for other in providers)
    return f"{provider.name} ({_backend_of(provider)})" if has_rivals else provider.name


def _backend_of(provider: ExecutionProvider) -> str:
    return provider.backend or _EMBEDDED


def _missing(node: Node, providers: Sequence[ExecutionProvider]) -> str:
    """Return what the session lacks for an EPContext node: its provider, or the right backend."""
    source = ep_context_attributes(node).source
    candidate = next(
        (provider for provider in providers if is_context_source_of(provider.name, source)), None
    )
    if candidate is None:
        return "no execution provider of this session takes it"
    other = (
        f": its maker is that of backend {quoted(_BRIDGE)}"
        if _backend_of(candidate) == _EMBEDDED
        else ""
    )
    backend = quoted(_backend_of(candidate))
    return f"that of this session, of backend {backend}, takes no contexts{other}"


def _source_of(node: Node) -> str:
    source = ep_context_attributes(node).source
    return quoted(source) if source else "an unnamed execution provider (its source is empty)"
