"""Options that refuse attributes which they do not have, and values of another kind.

Imports neither numpy nor onnx.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from ortpkg.errors import quoted
from ortpkg.session.onnxruntime_enums import NamedNumber


def whole_number(value: Any, *, bits: int = 32) -> int:
    """``value`` as a signed number of so many bits.

    TypeError where it is none, as in onnxruntime, and where something would be lost.
    """
    if isinstance(value, float | str | bytes) or not hasattr(type(value), "__int__"):
        raise TypeError(f"a whole number of {bits} bits is wanted, not a {type(value).__name__}")
    found = int(value)
    if found != value or not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise TypeError(f"a whole number of {bits} bits is wanted, not {quoted(value)}")
    return found


class KnownAttributesOnly:
    """Base of dataclasses.

    A mistyped option, or a value of another kind than its default, is an error where it is set.

    Numbers become the members of enumerations and the truth values that they stand for, as in
    onnxruntime.
    """

    __slots__ = ()

    if (
        not TYPE_CHECKING
    ):  # type checkers know the attributes, and would believe that any may be set

        def __setattr__(self, name: str, value: Any) -> None:
            declared = type(self).__dataclass_fields__.get(name)
            is_default = declared is None or value is declared.default  # as most are
            kind = None if is_default else _kind_of(type(declared.default))
            try:
                object.__setattr__(
                    self, name, value if kind is None else _of_kind(kind, name, value)
                )
            except AttributeError:
                if hasattr(type(self), name):
                    raise
                from ortpkg.names import did_you_mean  # for the message alone

                known = [each for each in dir(self) if not each.startswith("_")]
                kind = type(self).__name__
                raise AttributeError(
                    f"{kind!r} object has no attribute {name!r}{did_you_mean(name, known)}"
                ) from None


def _flag(value: Any) -> bool:
    if isinstance(value, NamedNumber) or (
        value is not None and not hasattr(type(value), "__bool__")
    ):
        raise TypeError
    try:
        return bool(value)
    except ValueError:  # an array of several
        raise TypeError from None


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes | os.PathLike):
        raise TypeError
    return value if isinstance(value, str) else os.fsdecode(value)


#: Kind of an option's default → how a value of that kind is read.
_READ: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("True or False", _flag),
    int: ("a whole number of 32 bits", whole_number),
    str: ("a text", _text),
}


def _kind_of(default: type) -> type | None:
    return default if default in _READ or issubclass(default, IntEnum) else None


def _of_kind(kind: type, name: str, value: Any) -> Any:
    """``value`` as an option of that kind. TypeError where it is none, as in onnxruntime."""
    expected, read = (
        (f"one of {', '.join(kind.__members__)}", partial(_member, kind))
        if issubclass(kind, IntEnum)
        else _READ[kind]
    )
    try:
        return read(value)
    except TypeError:
        is_number = isinstance(value, int) and not isinstance(value, NamedNumber)
        said = quoted(value) if is_number else f"a {type(value).__name__}"
        raise TypeError(f"{name} is {expected}, not {said}") from None


def _member(kind: type[IntEnum], value: Any) -> IntEnum:
    """The member that ``value`` is, or is the number of.

    A member of another enumeration is neither.
    """
    if isinstance(value, bool) or (isinstance(value, NamedNumber) and not isinstance(value, kind)):
        raise TypeError
    try:
        return kind(operator.index(value))
    except ValueError:
        raise TypeError from None
