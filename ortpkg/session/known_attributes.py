"""Options that refuse attributes which they do not have, and values of another kind. Imports nothing heavy."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any


class KnownAttributesOnly:
    """Base of dataclasses. A mistyped option, or a value of another kind than its default, is an error where it is set.

    Numbers become the members of enumerations and the truth values that they stand for, as in onnxruntime.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know the attributes, and would believe that any may be set

        def __setattr__(self, name: str, value: Any) -> None:
            declared = type(self).__dataclass_fields__.get(name)
            kind = None if declared is None else _kind_of(type(declared.default))
            try:
                object.__setattr__(self, name, value if kind is None else _of_kind(kind, name, value))
            except AttributeError:
                if hasattr(type(self), name):
                    raise
                from ortpkg.names import did_you_mean  # for the message alone

                known = [each for each in dir(self) if not each.startswith("_")]
                kind = type(self).__name__
                raise AttributeError(f"{kind!r} object has no attribute {name!r}{did_you_mean(name, known)}") from None


def _flag(value: Any) -> bool:
    if isinstance(value, str | bytes | list | tuple | dict):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError
    return value if isinstance(value, str) else os.fsdecode(value)


#: Kind of an option's default → how a value of that kind is read.
_READ: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("True or False", _flag),
    int: ("a whole number", operator.index),
    str: ("a text", _text),
}


def _kind_of(default: type) -> type | None:
    return default if default in _READ or issubclass(default, IntEnum) else None


def _of_kind(kind: type, name: str, value: Any) -> Any:
    """``value`` as an option of that kind. TypeError where it is none; numbers are judged when a session is made."""
    expected, read = _READ.get(kind, (f"one of {kind.__name__}", operator.index))
    try:
        found = read(value)
    except TypeError:
        raise TypeError(f"{name} is {expected}, not a {type(value).__name__}") from None
    if issubclass(kind, IntEnum) and found in kind.__members__.values():
        return kind(found)
    return found
