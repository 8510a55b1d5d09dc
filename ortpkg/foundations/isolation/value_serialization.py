"""Serialization of our own classes for another process of ours.

A child that runs foreign code may write nonsense. So only classes of this package and plain values
are loaded; any other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from ortpkg.foundations.errors import OrtpkgError

_OWN = "ortpkg"
#: Functions that create a value; every other name must be a class of ours.
_MAKERS = {("ortpkg.foundations.errors.base", "_restored")}
_PLAIN = {("pathlib", "PosixPath"), ("pathlib", "WindowsPath"), ("collections", "OrderedDict")}


def dump_value(value: object) -> bytes:
    """Return a value as bytes.

    It is made of our own classes, numbers, texts, tuples, lists and dictionaries.
    """
    return pickle.dumps(value)


def load_value(data: bytes | bytearray | memoryview) -> Any:
    """Return the value that :func:`dump_value` wrote.

    Raises:
        ValueError: The bytes are anything else.
    """
    try:
        return _OwnValues(io.BytesIO(data)).load()
    except Exception as error:
        raise ValueError(f"these bytes are no values of ours: {error}") from error


class _OwnValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a class of ours or a plain one; a pickle may name any function to call."""
        if (module, name) in _PLAIN | _MAKERS:
            return super().find_class(module, name)
        if module.partition(".")[0] == _OWN:
            value = super().find_class(module, name)
            if isinstance(value, type):
                return value
        raise pickle.UnpicklingError(f"{module}.{name}")


def portable_error(error: OrtpkgError) -> OrtpkgError:
    """Convert attributes of the error that are not plain to texts, so that it can be pickled."""
    for name, value in list(error.__dict__.items()):
        if not _is_plain(value):
            error.__dict__[name] = str(value)
    return error


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)
