"""Interface of a provider that compiles: supported nodes, compile, environment, export, import.

:mod:`ortpkg.runtime.providers.compiling_provider` does everything that is the same for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from ortpkg.foundations.errors import CompileError, EpContextError
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.ep_context.context_form import ContextForm
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    ContextMismatch,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, FusedNode, GraphViewer


class CompilingInterface(ExecutionProvider):
    """Interface of a provider that compiles; exporting and importing contexts is optional.

    Attributes:
        context_sources: values of an EPContext node's ``source`` that are the provider's own,
            beside those that its name implies (``ep_names.context_sources_of``); the first is the
            one it writes. Compared letter by letter.
        context_form: form in which onnxruntime's execution provider of the same name keeps
            contexts, if that is known: it is read, and written if the session's options ask for it.
    """

    context_sources: tuple[str, ...] = ()
    context_form: ContextForm | None = None

    @abstractmethod
    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        """Return the indices of the nodes that the provider can run; it may refuse any."""

    @abstractmethod
    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        """Compile a partition; raises whatever the library raises."""

    @abstractmethod
    def describe_environment(self) -> ContextDescriptor:
        """Return what contexts depend on here and now; the digests of the source are left empty."""

    def find_mismatch(
        self, recorded: ContextDescriptor, here: ContextDescriptor
    ) -> ContextMismatch | None:
        """Return the field in which a context does not fit; by default any difference counts."""
        return find_mismatch(recorded, here)

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:  # noqa: ARG002
        """Return the parts of a compiled partition to keep.

        Raises:
            CompileError: the provider keeps nothing.
        """
        raise CompileError(
            f"{self.name} cannot keep what it compiled: it makes no contexts", ep_name=self.name
        )

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:  # noqa: ARG002
        """Return the compiled partition from its kept parts; raises whatever the library raises."""
        raise EpContextError(
            f"{self.name} loads no contexts", ep_name=self.name, partition_name=entry.name
        )

    def complete_context(self, entry: ContextEntry, node: Node) -> ContextEntry:  # noqa: ARG002
        """Return a context with what its EPContext node adds; by default it is unchanged."""
        return entry

    def group_source(self, fused: FusedNode) -> object:  # noqa: ARG002
        """Return what :meth:`finish_group` needs of a partition; it stays in memory until then.

        None if it needs nothing.
        """
        return None

    def finish_group(
        self,
        entries: Sequence[ContextEntry],
        first_offset: int,  # noqa: ARG002
    ) -> Sequence[ContextEntry]:
        """Return the contexts of a session group to write; by default they are unchanged.

        Called in the group's last session.

        Args:
            entries: contexts that the group's sessions exported.
            first_offset: offset of the first part of the first entry in the file, if that entry is
                weightless.
        """
        return entries
