"""Option classes that refuse unknown attributes, and values of the wrong kind.

Imports neither numpy nor onnx.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.session.values.onnxruntime_enums import NamedNumber


def whole_number(value: Any, *, bits: int = 32) -> int:
    """Return ``value`` as a signed integer of this many bits.

    Raises:
        TypeError: it is not a number, as in onnxruntime, or would lose something.
    """
    if isinstance(value, float | str | bytes) or not hasattr(type(value), "__int__"):
        raise TypeError(f"a whole number of {bits} bits is wanted, not a {type(value).__name__}")
    number = int(value)
    if number != value or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise TypeError(f"a whole number of {bits} bits is wanted, not {quoted(value)}")
    return number


class KnownAttributesOnly:
    """Base of option dataclasses that check attributes when they are set.

    A mistyped option, or a value of another kind than its default, raises an error. Numbers become
    the enumeration members and truth values that they stand for, as in onnxruntime.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # hidden from type checkers, which would allow any attribute

        def __setattr__(self, name: str, value: Any) -> None:
            declared = type(self).__dataclass_fields__.get(name)
            is_default = declared is None or value is declared.default  # the usual case
            kind = None if is_default else _kind_of(type(declared.default))
            try:
                object.__setattr__(
                    self, name, value if kind is None else _converted(kind, name, value)
                )
            except AttributeError:
                if hasattr(type(self), name):
                    raise
                from ortpkg.foundations.names import did_you_mean  # only for the message

                names = [key for key in dir(self) if not key.startswith("_")]
                kind = type(self).__name__
                raise AttributeError(
                    f"{kind!r} object has no attribute {name!r}{did_you_mean(name, names)}"
                ) from None


def _flag(value: Any) -> bool:
    if isinstance(value, NamedNumber) or (
        value is not None and not hasattr(type(value), "__bool__")
    ):
        raise TypeError
    try:
        return bool(value)
    except ValueError:  # an array of several elements
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


def _converted(kind: type, name: str, value: Any) -> Any:
    """Return ``value`` as an option of this kind.

    Raises:
        TypeError: it is of another kind, as in onnxruntime.
    """
    expected, read = (
        (f"one of {', '.join(kind.__members__)}", partial(_member, kind))
        if issubclass(kind, IntEnum)
        else _READ[kind]
    )
    try:
        return read(value)
    except TypeError:
        is_number = isinstance(value, int) and not isinstance(value, NamedNumber)
        actual = quoted(value) if is_number else f"a {type(value).__name__}"
        raise TypeError(f"{name} is {expected}, not {actual}") from None


def _member(kind: type[IntEnum], value: Any) -> IntEnum:
    """Return the member that ``value`` is, or whose number it is.

    A member of another enumeration is neither.
    """
    if isinstance(value, bool) or (isinstance(value, NamedNumber) and not isinstance(value, kind)):
        raise TypeError
    try:
        return kind(operator.index(value))
    except ValueError:
        raise TypeError from None
