"""What a provider that compiles brings: supported nodes, compile, environment, export, import.

What is the same for all of them is :mod:`ortpkg.providers.compiling_provider`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from ortpkg.ep_context.context_form import ContextForm
from ortpkg.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    ContextMismatch,
    find_mismatch,
)
from ortpkg.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.errors import CompileError, EpContextError
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.providers.compiled_partition import CompiledPartition
from ortpkg.providers.execution_provider import ExecutionProvider, FusedNode, GraphViewer


class CompilingInterface(ExecutionProvider):
    """Five things, of which the last two are for providers that keep what they compiled.

    Attributes:
        context_sources: values of an EPContext node's ``source`` that are its own, beside those
            that its name implies (``ep_names.context_sources_of``); the first is what it writes.
            Letter by letter.
        context_form: in which onnxruntime's execution provider of the name keeps contexts, where
            that is known: it is read, and written where the session's options ask for it.
    """

    context_sources: tuple[str, ...] = ()
    context_form: ContextForm | None = None

    @abstractmethod
    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        """Indices of the nodes that it can run; it may refuse any."""

    @abstractmethod
    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        """Compiles. Raises whatever the library raises."""

    @abstractmethod
    def describe_environment(self) -> ContextDescriptor:
        """What its contexts depend on here and now; the digests of the source are left empty."""

    def find_mismatch(
        self, recorded: ContextDescriptor, here: ContextDescriptor
    ) -> ContextMismatch | None:
        """In what a context does not fit this environment; by default any difference is one."""
        return find_mismatch(recorded, here)

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:  # noqa: ARG002
        """What to keep of a compiled partition. CompileError for a provider that keeps nothing."""
        raise CompileError(
            f"{self.name} cannot keep what it compiled: it makes no contexts", ep_name=self.name
        )

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:  # noqa: ARG002
        """The compiled partition from what was kept of it. Raises whatever the library raises."""
        raise EpContextError(
            f"{self.name} loads no contexts", ep_name=self.name, partition_name=entry.name
        )

    def complete_context(self, entry: ContextEntry, node: Node) -> ContextEntry:  # noqa: ARG002
        """A context as it was found, with what its EPContext node adds; by default nothing."""
        return entry

    def group_source(self, fused: FusedNode) -> object:  # noqa: ARG002
        """What :meth:`finish_group` needs of a partition, kept in memory until then.

        None where it needs nothing.
        """
        return None

    def finish_group(
        self,
        entries: Sequence[ContextEntry],
        first_offset: int,  # noqa: ARG002
    ) -> Sequence[ContextEntry]:
        """A session group's contexts as they are written, by default as they were made.

        Called in the group's last session.

        Args:
            entries: what the group's sessions exported.
            first_offset: where the first part of the first entry will begin, if that entry is
                weightless.
        """
        return entries
