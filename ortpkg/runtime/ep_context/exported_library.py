"""Library that a provider exports: the functions of fused nodes, found by the nodes' names.

It is a file of contexts (``ep_context_file``), whose index is its table of symbols. Source: the
partitioning article, ``Compile(nodes, dll_path)`` and ``AddFuncInfo(name, dll_path)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortpkg.foundations.errors import CompileError, EpContextError, ModelFileError, quoted
from ortpkg.runtime.ep_context.context_file_writing import write_context_file
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, read_context_file
from ortpkg.runtime.ep_context.mapped_context import map_context


def write_library(path: Path, ep_name: str, entries: Sequence[ContextEntry]) -> None:
    """Write the compiled code of fused nodes in one step, replacing an existing file.

    Raises:
        CompileError: two nodes have the same name.
        EpContextWriteError: the file cannot be written.
    """
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise CompileError(
                f"two fused nodes are called {quoted(name)}: a library finds them by name",
                ep_name=ep_name,
            )
    write_context_file(path, ep_name, entries)


def read_library_entry(path: Path, name: str, ep_name: str) -> ContextEntry:
    """Return the entry of a fused node in a library, with each part compared with its digest.

    Raises:
        EpContextError: the library has no such entry, is damaged, or cannot be read.
    """
    try:
        library = read_context_file(map_context(path), ep_name=ep_name)
    except ModelFileError as error:
        raise EpContextError(f"the library: {error}", ep_name=ep_name) from error
    return library.entry(name)
