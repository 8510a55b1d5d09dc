"""``dataclass``, for frozen classes on the way of ``ortpkg select``, which defines sixty of them.

That of the standard library compiles six functions for each class, which was a quarter of what the
command takes. Here ``__eq__``, ``__hash__`` and ``__repr__`` are the same three functions for all
classes, and find the fields when they are called. Nothing else differs, and type checkers see the
one of the standard library.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - modules take it from here
else:

    def dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type], type]:
        """As ``dataclasses.dataclass``, of frozen classes."""
        assert frozen, "what can change has no hash"
        make = dataclasses.dataclass(
            frozen=frozen, slots=slots, kw_only=kw_only, eq=False, repr=False
        )

        def made(cls: type) -> type:
            shared = {name: each for name, each in _SHARED.items() if name not in vars(cls)}
            result = make(cls)
            for name, each in shared.items():
                setattr(result, name, each)
            return result

        return made


class _Shared:
    """Whose methods all these classes have."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        cls: Any = type(self)
        compared = _compared_values(cls)
        return bool(compared(self) == compared(other))

    def __hash__(self) -> int:
        cls: Any = self.__class__
        return hash(_compared_values(cls)(self))

    @recursive_repr()
    def __repr__(self) -> str:
        cls: Any = self.__class__
        shown = (f"{name}={getattr(self, name)!r}" for name in _shown_names(cls))
        return f"{cls.__qualname__}({', '.join(shown)})"


_SHARED = {name: vars(_Shared)[name] for name in ("__eq__", "__hash__", "__repr__")}


@cache
def _compared_values(cls: type) -> Callable[[Any], tuple[object, ...]]:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


@cache
def _shown_names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if field.repr)
