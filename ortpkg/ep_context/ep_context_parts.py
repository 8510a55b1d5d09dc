"""What a provider gives as the parts of a context, checked before anything of it is written."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.ep_context.ep_context_file import Part
from ortpkg.errors import CompileError, quoted


def checked_parts(parts: object, *, ep_name: str, partition_name: str) -> Mapping[str, Part]:
    """``parts`` as it is. CompileError where it is no mapping of names to bytes."""
    where = f"{ep_name} cannot keep partition {quoted(partition_name)}: export_context returned"
    if not isinstance(parts, Mapping):
        raise CompileError(
            f"{where} {type(parts).__name__}; names and bytes belong there", ep_name=ep_name
        )
    for name, part in parts.items():
        if not isinstance(name, str) or not isinstance(part, bytes | bytearray | memoryview):
            raise CompileError(
                f"{where} {type(part).__name__} under {quoted(name)}; names and bytes belong there",
                ep_name=ep_name,
            )
    return parts
