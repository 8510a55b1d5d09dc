"""Inputs and outputs as whoever declares them says: a session, a file, a package, a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ortpkg.graph.types import ElementType


class DeclaredValue(Protocol):
    """An input or output."""

    @property
    def name(self) -> str:
        """As the model declares it."""

    @property
    def type(self) -> str:
        """In ONNX Runtime's words, e.g. "tensor(float)"."""

    @property
    def shape(self) -> Sequence[int | str | None] | None:
        """A number, a symbolic name or None per dimension; None where the rank is not known."""


def declared_element_type(text: str) -> ElementType | None:
    """What a tensor of a type in ONNX Runtime's words has; None for what is no tensor."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    is_tensor = text.startswith("tensor(") and name in ElementType.__members__
    return ElementType[name] or None if is_tensor else None  # UNDEFINED is 0
