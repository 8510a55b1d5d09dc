"""Providers whose compiled functions can lie in a library file and be found there by node name.

Source: the partitioning article, ``Compile(nodes, dll_path)`` and ``AddFuncInfo(name, dll_path)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.runtime.ep_context.ep_context_descriptor import SOURCE_FIELDS, find_mismatch
from ortpkg.runtime.ep_context.exported_library import read_library_entry, write_library
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.execution_provider import FusedNode, NodeComputeInfo


class ExportingProvider(CompilingProvider):
    """Provider that compiles fused nodes into a library, and finds their functions in one."""

    def compile_to_library(self, fused_nodes: Sequence[FusedNode], library_path: Path) -> None:
        """Compile the nodes and write their functions to a library, in one step.

        If an error is raised, an existing library stays as it is.

        Raises:
            CompileError: a node cannot be compiled, or two have the same name.
            EpContextWriteError: the library cannot be written.
        """
        entries = [self._entry(fused, self._compile(fused)) for fused in fused_nodes]
        write_library(library_path, self.name, entries)

    def add_func_info(self, fused: FusedNode, library_path: Path) -> NodeComputeInfo:
        """Return the function of a fused node from a library, found by the node's name.

        Raises:
            EpContextError: the library has none of that name, is damaged, or was made for another
                machine or from another node of that name.
        """
        name = fused.node.name
        entry = read_library_entry(library_path, name, self.name)
        here = self._describe(fused)
        mismatch = find_mismatch(entry.descriptor, here, names=SOURCE_FIELDS)
        mismatch = mismatch or self.find_mismatch(entry.descriptor, self._environment())
        if mismatch is not None:
            raise EpContextError(
                f"the library {quoted(library_path)} does not fit node {quoted(name)}: its"
                f" {mismatch}; compile it anew",
                ep_name=self.name,
                partition_name=name,
            )
        return self._compute_info(self._import(entry, fused))
