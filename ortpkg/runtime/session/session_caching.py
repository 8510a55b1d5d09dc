"""Whole sessions in the context cache, looked up before the source model is read.

See :mod:`ortpkg.runtime.ep_context.cached_sessions`. Used for models in files on native libraries;
other sessions ask the cache partition by partition.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.storage.digest_cache import file_sha256
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.foundations.version import __version__
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.graph_parts import MICROSOFT_DOMAIN
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelSource
from ortpkg.graph.onnx_writer import WriteOptions, inline_tensor, to_model_proto
from ortpkg.graph.topology import all_graphs
from ortpkg.runtime.engine.partition import Partition, PartitionResult
from ortpkg.runtime.ep_context.cached_sessions import (
    MOST_MODEL_NBYTES,
    CachedSession,
    SessionCache,
    session_key,
)
from ortpkg.runtime.ep_context.context_node import EpContextAttributes
from ortpkg.runtime.ep_context.ep_context_cache import context_file_name
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_CACHE,
    CONTEXT_ENABLE,
    EXTERNAL_DATA_FOLDER,
    SHARE_EP_CONTEXTS,
    context_cache_of,
)
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.partition_cache import CachedPartition
from ortpkg.runtime.session.native_settings import native_settings
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.partition_entries import partition_costs
from ortpkg.runtime.session.session_state import SessionState

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCaching:
    """Entry of one session in the context cache.

    Attributes:
        sessions: the cache.
        key: key of the session.
        source: the model's file.
        stamp: size and times of the model's file, taken before it was read.
    """

    sessions: SessionCache
    key: str
    source: Path
    stamp: FileStamp | None

    def find(self) -> CachedSession | None:
        """Return the session as it was partitioned, or None if it is not in the cache."""
        return self.sessions.find(self.key, self.source.parent)

    def drop(self, reason: BaseException) -> None:
        """Delete a cached session that could not be used, and log why."""
        _log.info("a cached session of %s is dropped: %s", self.source, reason)
        self.sessions.drop(self.key)

    def keep(
        self,
        model: Model,
        result: PartitionResult,
        symbolic_dimensions: Sequence[str],
        *,
        data: Mapping[Path, FileStamp],
        providers: Sequence[ExecutionProvider],
    ) -> None:
        """Store the partitioned model if all its compiled contexts are in the cache.

        Args:
            model: the model after partitioning, before transformations that only our own kernels
                understand.
            result: the outcome of partitioning.
            symbolic_dimensions: names that the source declares.
            data: files of the source's weights, with stamps taken before any of them was read.
            providers: execution providers of the session.
        """
        if any(
            isinstance(initializer, SparseInitializer)
            for initializer in model.graph.initializers.values()
        ):
            return  # a copy of the model would lose a sparse output's form
        contexts_by_provider = {
            provider.name: provider.cached_partitions
            for provider in providers
            if isinstance(provider, CompilingProvider)
        }
        contexts = {
            node: contexts_by_provider[kernel.provider].get(node.name)
            for node, kernel in result.fused.items()
        }
        names = _below(self.source.parent, list(data))
        if (
            not contexts
            or None in contexts.values()
            or names is None
            or _uncompiled_nbytes(model.graph) > MOST_MODEL_NBYTES
        ):
            return
        digests = {name: file_sha256(self.source.parent / name) for name in names}
        stamps = {self.source: self.stamp, **data}
        if "" in digests.values() or any(
            file_stamp(path) != stamp for path, stamp in stamps.items()
        ):
            return  # a file changed meanwhile: the contexts may belong to the old one
        stored = {node: context for node, context in contexts.items() if context is not None}
        self.sessions.write(
            self.key,
            _with_context_nodes(model, stored),
            contexts=[context.key for context in stored.values()],
            data=digests,
            details={
                "partitions": [asdict(partition) for partition in result.partitions],
                "symbolic_dimensions": list(symbolic_dimensions),
                "refusals": {
                    provider.name: provider.refusal_text
                    for provider in providers
                    if isinstance(provider, NativeExecutionProvider) and provider.refusal_text
                },
            },
        )


def _with_context_nodes(model: Model, contexts: Mapping[Node, CachedPartition]) -> bytes:
    """Return the serialized model with an EPContext node in place of each compiled node."""
    stand_ins = {node: _context_node(node, context) for node, context in contexts.items()}
    model.opset_imports.setdefault(MICROSOFT_DOMAIN, 1)
    proto = to_model_proto(
        model,
        options=WriteOptions(
            tensor=inline_tensor,
            attribute_tensor=inline_tensor,
            keeps_initializer=_is_used,
            stand_in=lambda node: stand_ins.get(node, node),
        ),
    )
    serialized: bytes = proto.SerializeToString()
    return serialized


def may_be_cached(source: ModelSource, options: SessionOptions) -> bool:
    """Return True if a session on this model with these options can be cached as a whole."""
    entries = options.config_entries
    return (
        isinstance(source, str | os.PathLike)
        and context_cache_of(entries) is not None
        and "1" not in (entries.get(CONTEXT_ENABLE), entries.get(SHARE_EP_CONTEXTS))
        and not entries.get(EXTERNAL_DATA_FOLDER)
        and not (
            options.shared_initializers or options.external_initializers or options.external_files
        )
        and not options.optimized_model_filepath
        and options.provider_selection_policy is None
        and partition_costs(entries) is None
    )


def caching_of(
    source: ModelSource, options: SessionOptions, providers: Sequence[ExecutionProvider]
) -> SessionCaching | None:
    """Return the session's cache entry, or None if its providers cannot be cached.

    ``source`` and ``options`` must satisfy :func:`may_be_cached`.
    """
    cache = context_cache_of(options.config_entries)
    if cache is None or not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    environments = _environments(providers)
    stamp = file_stamp(path)
    digest = file_sha256(path) if environments else ""
    if not digest:
        return None
    entries = {key: value for key, value in options.config_entries.items() if key != CONTEXT_CACHE}
    key = session_key(
        __version__,
        digest,
        environments,
        entries,
        native_settings(options).of_compiling,
        options.graph_optimization_level.name,
        dict(options.free_dimension_overrides),
        dict(options.free_denotation_overrides),
    )
    return SessionCaching(sessions=SessionCache(cache), key=key, source=path, stamp=stamp)


def files_of_weights(graph: Graph) -> dict[Path, FileStamp]:
    """Return the files that hold a loaded model's weights, each as it was when opened."""
    sources = {
        initializer.source.path: initializer.source.stamp
        for current in all_graphs(graph)
        for initializer in current.initializers.values()
        if isinstance(initializer, MappedInitializer) and isinstance(initializer.source, MappedFile)
    }
    return dict(sorted(sources.items()))


def as_recorded(state: SessionState, cached: CachedSession) -> SessionState:
    """Return the state of a cached session with the partitions and warnings of the original one."""
    for ep_name, text in cached.details["refusals"].items():
        _log.warning("%s leaves nodes to other execution providers: %s", ep_name, text)
    partitions = tuple(_partition(document) for document in cached.details["partitions"])
    return replace(
        state,
        partitions=partitions,
        symbolic_dimensions=tuple(cached.details["symbolic_dimensions"]),
    )


def _partition(document: Mapping[str, Any]) -> Partition:
    lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
    return Partition(**{**document, **lists})


def _environments(providers: Sequence[ExecutionProvider]) -> list[object]:
    """Return what the compiled contexts of the providers depend on, in order.

    Empty if there is no compiling provider, or one whose contexts cannot be cached as a whole.
    """
    environments: list[object] = []
    for provider in providers:
        if isinstance(provider, NativeExecutionProvider):
            try:
                environment = provider.describe_environment()
            except (
                OrtpkgError
            ):  # its contexts cannot be cached; the session reports whatever else is wrong
                return []
            environments.append(
                [provider.name, provider.backend, provider.options, environment.to_json()]
            )
        elif not isinstance(provider, CPUExecutionProvider):
            return []
    return environments


def _below(folder: Path, files: Sequence[Path]) -> list[str] | None:
    """Return the files' paths relative to the folder; None if a link leads out of it."""
    try:
        return [path.resolve().relative_to(folder.resolve()).as_posix() for path in files]
    except (OSError, ValueError):
        return None


def _context_node(fused: Node, context: CachedPartition) -> Node:
    return EpContextAttributes(
        main_context=True,
        ep_cache_context=context_file_name(context.key).encode(),
        embed_mode=False,
        partition_name=context.partition_name,
        source=context.source,
    ).node_for(fused)


def _uncompiled_nbytes(graph: Graph) -> int:
    """Return the size in bytes of the constants that nodes outside of partitions need."""
    return sum(
        constant.nbytes
        for current in all_graphs(graph)
        for name, constant in current.initializers.items()
        if _is_used(current, name)
    )


def _is_used(graph: Graph, name: str) -> bool:
    return graph.is_input(name) or graph.is_output(name) or graph.use_count(name) > 0
