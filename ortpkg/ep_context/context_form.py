"""How contexts lie in a file that is not of ortpkg's form, but of an onnxruntime provider's.

A provider that reads or writes such a form brings a :class:`ContextForm`; which of a node's
contexts has it is told by the first bytes, since everything else in a node may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ortpkg.ep_context.ep_context_file import ContextEntry, Part


class ContextSource(Protocol):
    """Contexts that can be looked up by partition name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Partition names, in order."""
        ...

    def entry(self, name: str) -> ContextEntry:
        """The context of that partition.

        EpContextError where there is none, or where it is damaged.
        """
        ...


#: Reads a file or payload; takes its bytes, what it is (for messages), and the name of the
#: partition that is wanted.
ReadForm = Callable[[memoryview, str, str], ContextSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextForm:
    """The form in which onnxruntime's execution provider of one name keeps its contexts.

    Attributes:
        magic: the first bytes of a file or payload.
        read: reads one. EpContextError where it is damaged or breaks a limit.
        read_bare: reads what has no such bytes, because an older release of the provider made it.
        chunks: the bytes of a file or payload with these contexts.
        sdk_version: what a node's ``ep_sdk_version`` is, from the version of the library that
            compiled.
        compatibility_info: what the provider would say of a model with a context of these parts; ""
            for nothing.
        weight_files: files from which the contexts of a file or payload take weights, by their
            locations, with the least size that serves. EpContextError where it is damaged.
    """

    magic: bytes
    read: ReadForm
    read_bare: ReadForm
    chunks: Callable[[Sequence[ContextEntry]], Iterator[Part]]
    sdk_version: Callable[[str], str]
    compatibility_info: Callable[[Mapping[str, Part]], str]
    weight_files: Callable[[memoryview, str], Mapping[str, int]]

    def is_of(self, data: memoryview) -> bool:
        """Whether a file or payload begins as one of this form."""
        return bytes(data[: len(self.magic)]) == self.magic
