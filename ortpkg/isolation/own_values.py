"""Values of our own classes as bytes, for another process of ours.

Nothing else can be read from them.

A child that runs foreign code may write nonsense. So what is read is made of classes of this
package and of plain values; a name of anything else is refused before it is looked up.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from ortpkg.errors import OrtpkgError

_OWN = "ortpkg"
#: Functions that make a value; all else that is named must be a class of ours.
_MAKERS = {("ortpkg.errors.base", "_restored")}
_PLAIN = {("pathlib", "PosixPath"), ("pathlib", "WindowsPath"), ("collections", "OrderedDict")}


def dump_value(value: object) -> bytes:
    """A value made of our own classes, and of numbers, texts, tuples, lists and dictionaries."""
    return pickle.dumps(value)


def load_value(data: bytes | bytearray | memoryview) -> Any:
    """What :func:`dump_value` wrote. ValueError for anything else."""
    try:
        return _OwnValues(io.BytesIO(data)).load()
    except Exception as error:
        raise ValueError(f"these bytes are no values of ours: {error}") from error


class _OwnValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only classes of ours, and plain ones: a pickle may name any function to call."""
        if (module, name) in _PLAIN | _MAKERS:
            return super().find_class(module, name)
        if module.partition(".")[0] == _OWN:
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name}")


def portable_error(error: OrtpkgError) -> OrtpkgError:
    """The error as it can be pickled: attributes that are no plain values become texts."""
    for name, value in list(error.__dict__.items()):
        if not _is_plain(value):
            error.__dict__[name] = str(value)
    return error


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)
