"""The context model: the partitioned model, with EPContext nodes for compiled partitions.

Execution providers make the nodes and the binaries, the engine writes the model. Nodes that stay on
the CPU keep their weights, in the model or in one file beside it, so that no file of the source
model is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ortpkg.foundations.errors import (
    EpContextError,
    ExecutionProviderError,
    ModelFileError,
    SessionError,
    quoted,
)
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.graph_parts import MICROSOFT_DOMAIN
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import WriteOptions, inline_tensor, save_model
from ortpkg.runtime.engine.fused_kernel import FusedKernel
from ortpkg.runtime.engine.provider_answers import guard
from ortpkg.runtime.ep_context.context_node import EP_CONTEXT, is_ep_context
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_FILE_PATH, EpContextOptions
from ortpkg.runtime.providers.execution_provider import ExecutionProvider

_log = logging.getLogger(__name__)

#: The only version of the com.microsoft domain.
_MICROSOFT_VERSION = 1
#: Prefix of a compiled model's metadata key; the name of the EP that compiled it follows (OrtEp).
COMPATIBILITY_PREFIX = "ep_compatibility_info."


def dump_ep_context_model(
    model: Model,
    fused: Mapping[Node, FusedKernel],
    providers: Iterable[ExecutionProvider],
    options: EpContextOptions,
) -> Path | None:
    """Write the context model of a partitioned model, and return its path.

    Args:
        model: the model after partitioning, before changes that only our own kernels understand.
        fused: the compiled partition behind each fused node.
        providers: providers of the session; each returns its EPContext nodes, named like the fused
            nodes.
        options: the path, among others.

    Returns:
        None if no provider made an EPContext node; this is logged.

    Raises:
        EpContextError: a provider compiled a partition and made no node for it, while it made
            others.
        SessionError: the file exists already, or cannot be written.
    """
    providers = list(providers)
    stand_ins = _stand_ins(fused, providers)
    if not stand_ins:
        _log.warning(
            "no context model is written: no execution provider compiled a partition into a context"
        )
        return None
    path = options.output_path
    if path.exists():
        raise SessionError(
            f"{CONTEXT_FILE_PATH}: {quoted(path)} exists already; delete it or name another file: a"
            " context model is never written over"
        )
    model.opset_imports.setdefault(MICROSOFT_DOMAIN, _MICROSOFT_VERSION)
    _add_compatibility_info(model, {kernel.provider for kernel in fused.values()}, providers)
    _save(model, stand_ins, options)
    files = [
        path,
        *([path.with_name(options.external_initializers)] if options.external_initializers else []),
    ]
    for provider in providers:
        provider.add_ep_context_model(files)
    return path


def _save(model: Model, stand_ins: Mapping[Node, Node], options: EpContextOptions) -> None:
    path = options.output_path
    # A context from the source model may have constants as inputs, unlike its fused node.
    carried_inputs = {name for node in stand_ins.values() for name in node.inputs}
    write_options = WriteOptions(
        tensor=inline_tensor,
        attribute_tensor=inline_tensor,
        keeps_initializer=lambda graph, name: name in carried_inputs or _is_used(graph, name),
        stand_in=lambda node: stand_ins.get(node, node),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_model(
            model,
            path,
            external_data=options.external_initializers or None,
            smallest_external_nbytes=0,
            options=write_options,
            replaces=False,
        )
    except (OSError, ModelFileError) as error:
        raise SessionError(
            f"the context model {quoted(path)} cannot be written: {error}"
        ) from error


def _stand_ins(
    fused: Mapping[Node, FusedKernel], providers: Iterable[ExecutionProvider]
) -> dict[Node, Node]:
    """Return fused node → the EPContext node that is written for it."""
    context_nodes: dict[tuple[str, str], Node] = {}
    for provider in providers:
        for node in provider.get_ep_context_nodes():
            if not is_ep_context(node):
                raise EpContextError(
                    f"{provider.name} gives {node} for a context; it must be"
                    f" {MICROSOFT_DOMAIN}:{EP_CONTEXT}",
                    ep_name=provider.name,
                )
            context_nodes[(provider.name, node.name)] = node
    stand_ins = {}
    makers = {name for name, _ in context_nodes}
    for node, kernel in fused.items():
        stand_in = context_nodes.get((kernel.provider, node.name))
        if stand_in is not None:
            stand_ins[node] = stand_in
        elif kernel.provider in makers:
            raise EpContextError(
                f"{kernel.provider} compiled {quoted(node.name)} and made no EPContext node of that"
                " name",
                ep_name=kernel.provider,
                partition_name=node.name,
            )
    return stand_ins


def _add_compatibility_info(
    model: Model, makers: Collection[str], providers: Iterable[ExecutionProvider]
) -> None:
    """Write each EP's compatibility text to the model's metadata, where selection reads it."""
    for provider in providers:
        if provider.name not in makers:
            continue
        with guard(provider, "say what its compiled models fit"):
            info: object = provider.get_compiled_model_compatibility_info(model.graph)
        if not info:
            continue
        if not isinstance(info, str):
            raise ExecutionProviderError(
                f"{provider.name}: get_compiled_model_compatibility_info returned"
                f" {type(info).__name__}, not str",
                ep_name=provider.name,
            )
        model.metadata_props[f"{COMPATIBILITY_PREFIX}{provider.name}"] = info


def _is_used(graph: Graph, name: str) -> bool:
    return graph.is_input(name) or graph.is_output(name) or graph.use_count(name) > 0
