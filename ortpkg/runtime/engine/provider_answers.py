"""Check the answers of EPs while a graph is partitioned: a plug-in may return anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelInfo
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    ComputeCapability,
    ExecutionProvider,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.foreign_code import foreign_code
from ortpkg.runtime.providers.node_indices import verified_indices
from ortpkg.runtime.providers.plugins import BUILT_IN_BACKENDS

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def capabilities_of(
    provider: ExecutionProvider,
    viewer: GraphViewer,
    types_of: Callable[[Node], Mapping[str, ElementType]],
) -> list[ComputeCapability]:
    """Return the capabilities that ``provider`` claims of the graph.

    Raises:
        ExecutionProviderError: the answer is not a list of capabilities of this graph.
    """
    with guard(provider, "say which nodes it runs"):
        capabilities = answers_of(
            ComputeCapability,
            list(provider.get_capability(viewer, types_of)),
            provider,
            "get_capability",
        )
        for capability in capabilities:
            verified_indices(provider.name, "get_capability", capability.node_indices, viewer.graph)
            if capability.meta_def is not None:
                _verify_meta(provider, capability.meta_def)
    return capabilities


def _verify_meta(provider: ExecutionProvider, meta: object) -> None:
    """Raise ExecutionProviderError if a node cannot have such a name, inputs and outputs."""
    name: object = getattr(meta, "name", "")
    borders: list[Any] = [getattr(meta, "inputs", None), getattr(meta, "outputs", None)]
    are_names = all(
        isinstance(names, list | tuple) and all(isinstance(value, str) for value in names)
        for names in borders
    )
    if not isinstance(meta, MetaDef) or not isinstance(name, str) or not name or not are_names:
        wrong = (
            f"{quoted(meta)} where a MetaDef with a name, and tuples of names as inputs and"
            " outputs, belongs"
        )
    elif any(len(set(names)) < len(names) for names in borders):
        wrong = f"a MetaDef {quoted(meta.name)} that has the same input or output twice"
    else:
        return
    raise ExecutionProviderError(
        f"{provider.name}: get_capability returned {wrong}", ep_name=provider.name
    )


def allocator_of(provider: ExecutionProvider) -> Allocator:
    """Return the allocator of ``provider``; ExecutionProviderError if it is not one."""
    with guard(provider, "say which memory it works in"):
        allocator = provider.create_allocator()
        if not isinstance(allocator, Allocator):
            raise TypeError(
                f"create_allocator returned {type(allocator).__name__} where Allocator belongs"
            )
    return allocator


def guarded_kernel(kernel: KernelDef, provider: ExecutionProvider) -> KernelDef:
    """Return a plug-in's kernel whose creation raises errors that name the plug-in."""

    def factory(info: OpKernelInfo) -> Compute:
        with guard(provider, f"make its kernel of node {info.node.name}"):
            return kernel.factory(info)

    return replace(kernel, factory=factory)


def end_quietly(provider: ExecutionProvider, end: Callable[[], None]) -> None:
    """Call ``end``, which ends a part of ``provider``; log errors of a plug-in."""
    try:
        with guard(provider, "end"):
            end()
    except ExecutionProviderError as error:
        _log.warning("%s", error)


def answers_of(
    kind: type[_T], answers: Sequence[Any], provider: ExecutionProvider, function: str
) -> list[_T]:
    """Return ``answers``; ExecutionProviderError if one of them is not of ``kind``."""
    for answer in answers:
        if not isinstance(answer, kind):
            raise ExecutionProviderError(
                f"{provider.name}: {function} returned {type(answer).__name__} where"
                f" {kind.__name__} belongs",
                ep_name=provider.name,
            )
    return list(answers)


def verify_callable(provider: ExecutionProvider, compute_infos: Sequence[NodeComputeInfo]) -> None:
    """Raise ExecutionProviderError if a function of ``compute_infos`` cannot be called."""
    for info in compute_infos:
        for name in ("compute", "create_state", "release_state"):
            if not callable(getattr(info, name)):
                raise ExecutionProviderError(
                    f"{provider.name}: compile returned a NodeComputeInfo whose {name} is no"
                    " function",
                    ep_name=provider.name,
                )


def guard(provider: ExecutionProvider, doing: str) -> AbstractContextManager[None]:
    """Return a context that turns errors of plug-ins into ExecutionProviderError.

    Our own providers run unguarded: their unknown errors are bugs.
    """
    return foreign_code(provider.name, doing) if is_foreign(provider) else nullcontext()


def is_foreign(provider: ExecutionProvider) -> bool:
    """Return True if the provider comes from a plug-in."""
    return provider.backend not in BUILT_IN_BACKENDS
