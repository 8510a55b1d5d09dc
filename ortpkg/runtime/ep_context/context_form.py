"""File forms of onnxruntime's providers, in which contexts may lie instead of ortpkg's form.

A provider that reads or writes such a form has a :class:`ContextForm`. The first bytes of a node's
context show the form, since everything else in a node may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part


class ContextSource(Protocol):
    """Contexts that can be looked up by partition name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Partition names, in order."""
        ...

    def entry(self, name: str) -> ContextEntry:
        """Return the context of a partition; EpContextError if it is missing or damaged."""
        ...


#: Function that reads a file or payload: takes its bytes, a description (for messages), and the
#: name of the partition that is wanted.
ReadForm = Callable[[memoryview, str, str], ContextSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextForm:
    """Form in which onnxruntime's execution provider of a name stores its contexts.

    Attributes:
        magic: the first bytes of a file or payload.
        read: reads a file or payload; EpContextError if it is damaged or breaks a limit.
        read_bare: reads data without these first bytes, from an older release of the provider.
        chunks: returns the bytes of a file or payload with these contexts.
        sdk_version: returns a node's ``ep_sdk_version`` for the version of the compiling library.
        compatibility_info: returns the provider's text on a model with a context of these parts; ""
            for none.
        weight_files: returns the files from which contexts of a file or payload take weights, by
            location, with the least size needed; EpContextError if it is damaged.
    """

    magic: bytes
    read: ReadForm
    read_bare: ReadForm
    chunks: Callable[[Sequence[ContextEntry]], Iterator[Part]]
    sdk_version: Callable[[str], str]
    compatibility_info: Callable[[Mapping[str, Part]], str]
    weight_files: Callable[[memoryview, str], Mapping[str, int]]

    def is_of(self, data: memoryview) -> bool:
        """Return True if a file or payload begins like this form."""
        return bytes(data[: len(self.magic)]) == self.magic
