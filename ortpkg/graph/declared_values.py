"""Inputs and outputs as a session, a file, a package or a pipeline declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ortpkg.graph.types import ElementType


class DeclaredValue(Protocol):
    """An input or output."""

    @property
    def name(self) -> str:
        """The name in the model."""

    @property
    def type(self) -> str:
        """The type in ONNX Runtime's notation, e.g. "tensor(float)"."""

    @property
    def shape(self) -> Sequence[int | str | None] | None:
        """A number, a symbolic name or None per dimension; None if the rank is unknown."""


def declared_element_type(text: str) -> ElementType | None:
    """Return the element type of a tensor type in ONNX Runtime's notation; None for other types."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    is_tensor = text.startswith("tensor(") and name in ElementType.__members__
    return ElementType[name] or None if is_tensor else None  # UNDEFINED is 0
