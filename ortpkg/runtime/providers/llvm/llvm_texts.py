"""Keeps what partitions became on their way to machine code, for sessions that show it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.compiler.machine_code.compilation_stages import Stage, StageTexts
from ortpkg.compiler.machine_code.program_parts import read_program
from ortpkg.compiler.machine_code.program_text import program_text
from ortpkg.graph.graph import Graph
from ortpkg.runtime.ep_context.context_node import is_ep_context
from ortpkg.runtime.ep_context.ep_context_file import Part
from ortpkg.runtime.providers.execution_provider import FusedNode

if TYPE_CHECKING:
    from ortpkg.compiler.assembly.compilation_target import CompilationTarget


class _PartitionSource(NamedTuple):
    """Graph of a partition, or None if its context was loaded without one, and its parts."""

    graph: Graph | None
    parts: Mapping[str, Part]


class PartitionSources:
    """Sources of one session's partitions, by the names of their fused nodes."""

    def __init__(self) -> None:
        self._kept: dict[str, _PartitionSource] = {}

    def keep(self, fused: FusedNode, parts: Mapping[str, Part]) -> None:
        """Remember what a partition was compiled from; for an EPContext node, its parts alone."""
        is_context = any(map(is_ep_context, fused.body.nodes))
        self._kept[fused.node.name] = _PartitionSource(None if is_context else fused.body, parts)

    def texts(
        self,
        fused_node: str,
        target: CompilationTarget,
        stages: Collection[Stage],
        kernel: str | None,
    ) -> StageTexts:
        """Return the texts of a partition; without its graph, only those of its steps.

        Raises:
            CompileError: LLVM fails.
        """
        source = self._kept.get(fused_node)
        if source is None:
            return {}
        texts: dict[Stage, Mapping[str, str]] = {}
        if source.graph is not None and set(stages) - {Stage.STEPS}:
            # the compiler is loaded only if its stages are shown
            from ortpkg.compiler.compilation_text import compilation_texts

            texts |= compilation_texts(source.graph, target, stages, kernel)
        if Stage.STEPS in stages:
            texts[Stage.STEPS] = {fused_node: program_text(read_program(source.parts))}
        return texts
