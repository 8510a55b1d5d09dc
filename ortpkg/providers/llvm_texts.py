"""What partitions became on their way to machine code, kept for people where a session asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.ep_context.context_node import is_ep_context
from ortpkg.ep_context.ep_context_file import Part
from ortpkg.graph.graph import Graph
from ortpkg.machine_code.compilation_stages import Stage, StageTexts
from ortpkg.machine_code.program_parts import read_program
from ortpkg.machine_code.program_text import program_text
from ortpkg.providers.execution_provider import FusedNode

if TYPE_CHECKING:
    from ortpkg.codegen.assembly.compilation_target import CompilationTarget


class _Kept(NamedTuple):
    """A partition's graph, None where a context was loaded without it, and its parts."""

    graph: Graph | None
    parts: Mapping[str, Part]


class KeptPartitions:
    """What one session's partitions were made of, by the names of their fused nodes."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def keep(self, fused: FusedNode, parts: Mapping[str, Part]) -> None:
        """Remembers what a partition was compiled from; of an EPContext node, its parts alone."""
        is_context = any(map(is_ep_context, fused.body.nodes))
        self._kept[fused.node.name] = _Kept(None if is_context else fused.body, parts)

    def texts(
        self,
        fused_node: str,
        target: CompilationTarget,
        stages: Collection[Stage],
        kernel: str | None,
    ) -> StageTexts:
        """The texts of a partition; without its graph, what its steps are.

        Raises CompileError where LLVM fails.
        """
        kept = self._kept.get(fused_node)
        if kept is None:
            return {}
        texts: dict[Stage, Mapping[str, str]] = {}
        if kept.graph is not None and set(stages) - {Stage.STEPS}:
            # the compiler is loaded where somebody looks into it
            from ortpkg.codegen.compilation_text import compilation_texts

            texts |= compilation_texts(kept.graph, target, stages, kernel)
        if Stage.STEPS in stages:
            texts[Stage.STEPS] = {fused_node: program_text(read_program(kept.parts))}
        return texts
