"""Providers that compile: they claim maximal sub-graphs, make one call of each, and may keep it.

This module has everything of the EPContext design that is the same for every such provider: which
EPContext nodes are its own, where contexts lie, whether they are still right, one binary for any
number of partitions, sharing between the sessions of a group. A provider implements
:class:`~ortpkg.runtime.providers.compiling_interface.CompilingInterface`.

Source: the EPContext design.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import is_context_source_of
from ortpkg.foundations.errors import CompileError, EpContextError, OrtpkgError, quoted
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    is_ep_context,
)
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    verify_descriptor,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.ep_context.ep_context_match import check_context_entry
from ortpkg.runtime.ep_context.ep_context_reader import EpContextReader
from ortpkg.runtime.ep_context.ep_context_writer import EpContextWriter, checked_parts
from ortpkg.runtime.ep_context.partition_digests import partition_digests
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.compiled_partition import (
    CompiledPartition,
    NotCompiled,
    arity_of,
    as_fused,
    has_compute,
)
from ortpkg.runtime.providers.compiling_interface import CompilingInterface
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    FusedNode,
    GraphViewer,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.first_load import ContextLoader, load_in_child_first
from ortpkg.runtime.providers.native_library import first_line
from ortpkg.runtime.providers.node_indices import verified_indices
from ortpkg.runtime.providers.partition_cache import CachedPartition, PartitionCache
from ortpkg.runtime.providers.session_settings import SessionSettings
from ortpkg.runtime.providers.supported_subgraphs import subgraph_claim, supported_subgraphs


class CompilingProvider(CompilingInterface):
    """Provider that claims supported nodes as fused partitions, and EPContext nodes of its own."""

    def __init__(
        self,
        name: str,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, ep_devices=ep_devices, options=options)
        self._context_nodes: list[Node] = []
        self._writer: EpContextWriter | None = None
        #: Results of asking the cache of contexts, one per partition that was compiled or found.
        self.cache_outcomes: list[CacheOutcome] = []
        #: Contexts of the session that are in the cache, by the name of the fused node.
        self.cached_partitions: dict[str, CachedPartition] = {}
        #: The provider's main EPContext nodes, collected when it was asked for capabilities.
        self._mains: list[EpContextAttributes] = []
        self._make_first_loader: Callable[[SessionSettings], ContextLoader] | None = None

    def load_first_by(self, make: Callable[[SessionSettings], ContextLoader]) -> None:
        """Have contexts loaded in a child process first; called once, for a plug-in.

        Args:
            make: makes the loader for the child; takes the session's settings that the plug-in
                obeys.
        """
        self._make_first_loader = make

    @property
    def first_loader(self) -> ContextLoader | None:
        """Loader for native code; None if contexts need no first load in a child process."""
        make = self._make_first_loader
        return None if make is None else make(self.session_settings.only(self.obeyed_settings))

    # --- the interface of an execution provider ---------------------------------------------------

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        context_nodes = [node for node in viewer.nodes if self._is_own_context(node)]
        self._mains += [
            attributes
            for attributes in map(ep_context_attributes, context_nodes)
            if attributes.main_context
        ]
        claims = [subgraph_claim(viewer.graph, (node.index,), node.name) for node in context_nodes]
        free = {
            node.index
            for node in viewer.nodes
            if not node.execution_provider and not is_ep_context(node)
        }
        if self.ep_context.only_contexts:
            free.clear()
        supported = free & self._named_nodes(viewer, types_of) if free else set()
        if supported:
            claims += self.claim_subgraphs(viewer, supported)
        return [claim for claim in claims if claim is not None]

    def nodes_for_float32(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        return () if self.ep_context.only_contexts else self._named_nodes(viewer, types_of)

    def claim_subgraphs(
        self, viewer: GraphViewer, supported: Collection[int]
    ) -> list[ComputeCapability | None]:
        """Return the maximal sub-graphs of ``supported``.

        A provider that only knows by trying may claim less.
        """
        return self._claims_of(viewer, supported_subgraphs(viewer, supported))

    def _claims_of(
        self, viewer: GraphViewer, groups: Sequence[tuple[int, ...]]
    ) -> list[ComputeCapability | None]:
        return [
            subgraph_claim(viewer.graph, group, self._partition_name(viewer.graph))
            for group in groups
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        compiled: list[CompiledPartition] = []
        entries: list[tuple[Node, ContextEntry]] = []
        # Contexts that wait for sessions that infer stay there: these are only carried into another
        # model.
        options = (
            replace(self.ep_context, share=False) if self.ep_context.enable else self.ep_context
        )
        reader = EpContextReader(self.name, options, self._mains, self.context_form)
        for fused in fused_nodes:
            context_node = self.context_node_of(fused)
            if context_node is not None:
                entry, loaded = self._load(context_node, fused, reader)
                compiled.append(loaded)
                if self.ep_context.enable:
                    entries.append((context_node, entry))
                continue
            compiled.append(self._find_or_compile(fused))
            if self.ep_context.enable:
                entries.append((fused.node, self._entry(fused, compiled[-1])))
        if entries:
            self._context_nodes += self._context_writer().keep(
                [node for node, _ in entries], [entry for _, entry in entries]
            )
        return [self._compute_info(partition) for partition in compiled]

    @staticmethod
    def _compute_info(compiled: CompiledPartition) -> NodeComputeInfo:
        return NodeComputeInfo(compute=_compute, create_state=_hands_out(compiled))

    def context_node_of(self, fused: FusedNode) -> Node | None:
        """Return the EPContext node that a fused node stands for.

        None for a partition that is to be compiled.
        """
        return next((node for node in fused.body.nodes if is_ep_context(node)), None)

    def get_ep_context_nodes(self) -> list[Node]:
        """Write the binary of what was compiled, unless it is written, and return the nodes."""
        if self.ep_context.enable:
            self._context_writer().finish()
        return list(self._context_nodes)

    def check_ep_contexts(self) -> None:
        self._context_writer().check_place()

    def add_ep_context_model(self, files: Sequence[Path]) -> None:
        self._context_writer().add_model(files)

    def abandon_ep_contexts(self, reason: BaseException) -> None:
        self._context_writer().abandon(reason)

    # --- claims -----------------------------------------------------------------------------------

    def _named_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> frozenset[int]:
        named = self.supported_nodes(viewer, types_of)
        return frozenset(verified_indices(self.name, "supported_nodes", named, viewer.graph))

    def _is_own_context(self, node: Node) -> bool:
        if not is_ep_context(node) or node.execution_provider:
            return False
        source = ep_context_attributes(node).source
        return source in self.context_sources or is_context_source_of(self.name, source)

    def _partition_name(self, graph: Graph) -> str:
        """Return a name unique in the model, and (with the model's own) in a binary of several."""
        stem = self.name.removesuffix("ExecutionProvider")
        if not self.ep_context.enable:
            return graph.make_name(stem)
        source = self.ep_context.model_path or self.ep_context.output_path
        return graph.make_name(f"{self.ep_context.node_name_prefix}{source.stem}_{stem}")

    # --- compiling and keeping --------------------------------------------------------------------

    def _find_or_compile(self, fused: FusedNode) -> CompiledPartition:
        """Return the partition from the cache of contexts; if it has none, compile and keep it."""
        caching = self._caching()
        if caching is None or any(map(is_ep_context, fused.body.nodes)):
            # a partition around somebody's context was not compiled here, so it is not kept
            return self._compile(fused)
        descriptor = self._cache_descriptor(fused)
        caching.note_outcome(descriptor, fused)
        if caching.only_explains:
            return NotCompiled()

        def find(is_locked: bool) -> CompiledPartition | None:
            return caching.find(
                descriptor, fused, lambda entry: self._import(entry, fused), is_locked=is_locked
            )

        def make() -> CompiledPartition:
            made = self._compile(fused)
            caching.keep(descriptor, fused, lambda: self._parts_of(made, fused))
            return made

        return caching.once(descriptor, find, make)

    def _caching(self) -> PartitionCache | None:
        """Return the session's cache of contexts; None if it has none."""
        cache = self.ep_context.cache
        if cache is None:
            return None
        return PartitionCache(
            ep_name=self.name,
            source=self._written_source,
            cache=cache,
            options=self.ep_context,
            outcomes=self.cache_outcomes,
            cached_partitions=self.cached_partitions,
        )

    @property
    def _written_source(self) -> str:
        """Value that the provider writes as the ``source`` of EPContext nodes."""
        return self.context_sources[0] if self.context_sources else self.name

    def _compile(self, fused: FusedNode) -> CompiledPartition:
        try:
            compiled = self.compile_partition(fused)
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            raise CompileError(
                f"{self.name} cannot compile partition {quoted(fused.node.name)}:"
                f" {first_line(error)}",
                ep_name=self.name,
            ) from error
        if not has_compute(compiled):
            raise CompileError(
                f"{self.name} cannot compile partition {quoted(fused.node.name)}: compile_partition"
                f" returned {type(compiled).__name__}, which has no compute()",
                ep_name=self.name,
            )
        return compiled

    def _context_writer(self) -> EpContextWriter:
        if self._writer is None:
            self._writer = EpContextWriter(
                self.name,
                self._written_source,
                self.ep_context,
                self.finish_group,
                form=self.context_form,
            )
        return self._writer

    def _parts_of(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        parts = self.export_context(compiled, fused)
        return checked_parts(parts, ep_name=self.name, partition_name=fused.node.name)

    def _entry(self, fused: FusedNode, compiled: CompiledPartition) -> ContextEntry:
        descriptor = self._describe(fused)  # raises if nothing is kept
        is_shared = self.ep_context.share and not self.ep_context.embed_mode
        return ContextEntry(
            name=fused.node.name,
            descriptor=descriptor,
            parts=self._parts_of(compiled, fused),
            arity=arity_of(fused),
            source=self.group_source(fused) if is_shared else None,
        )

    def _describe(self, fused: FusedNode) -> ContextDescriptor:
        """Return what a context of the partition, made here and now, depends on."""
        graph_digest, weights_digest = partition_digests(fused.body)
        return replace(
            self._environment(), graph_digest=graph_digest, weights_digest=weights_digest
        )

    def _environment(self) -> ContextDescriptor:
        """Return the provider's description of its environment; TypeError if it is none."""
        environment = self.describe_environment()
        verify_descriptor(environment, self.name)
        return environment

    def _cache_descriptor(self, fused: FusedNode) -> ContextDescriptor:
        """Return the descriptor for the cache, which may have the session's options, too."""
        return self._describe(fused)

    # --- loading ----------------------------------------------------------------------------------

    def _import(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        if (loader := self.first_loader) is not None:
            load_in_child_first(entry, self._environment(), loader, fused)
        loaded = self.import_context(entry, fused)
        if not has_compute(loaded):
            raise EpContextError(
                f"{self.name} cannot load the context of partition {quoted(entry.name)}:"
                f" import_context returned {type(loaded).__name__}, which has no compute()",
                ep_name=self.name,
                source=entry.descriptor.ep,
                partition_name=entry.name,
            )
        return loaded

    def _load(
        self, context_node: Node, fused: FusedNode, reader: EpContextReader
    ) -> tuple[ContextEntry, CompiledPartition]:
        """Return the context behind an EPContext node, and its partition.

        Raises:
            EpContextError: the context has any fault (INVALID_GRAPH).
        """
        attributes = ep_context_attributes(context_node)
        name = attributes.partition_name or fused.node.name
        entry = self.complete_context(reader.find_entry(attributes, name), context_node)
        check_context_entry(entry, context_node, attributes, ep_name=self.name)
        context = f"the context of partition {quoted(name)}"
        faults = partial(self._context_faults, source=attributes.source, partition_name=name)
        with faults(f"cannot say whether {context} fits"):
            mismatch = self.find_mismatch(entry.descriptor, self._environment())
        if mismatch is not None:
            raise EpContextError(
                f"{context} is stale: its {mismatch}; compile the model anew",
                ep_name=self.name,
                source=attributes.source,
                partition_name=name,
            )
        with faults(f"cannot load {context}"):
            compiled = self._import(entry, fused)
        reader.check_judged_files()  # before anything of it runs
        return entry, as_fused(compiled, context_node, fused.body)

    @contextmanager
    def _context_faults(self, cannot: str, *, source: str, partition_name: str) -> Iterator[None]:
        """Raise EpContextError, which says what the provider cannot do, for a backend's errors."""
        try:
            yield
        except OrtpkgError:
            raise
        except (Exception, SystemExit) as error:
            raise EpContextError(
                f"{self.name} {cannot}: {first_line(error)}",
                ep_name=self.name,
                source=source,
                partition_name=partition_name,
            ) from error


def _compute(
    compiled: CompiledPartition, inputs: Sequence[Any], context: OpKernelContext
) -> Sequence[Any]:
    return compiled.compute(inputs, context)


def _hands_out(compiled: CompiledPartition) -> Callable[[str], CompiledPartition]:
    return lambda _node_name: compiled
