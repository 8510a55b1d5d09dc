"""Options that refuse attributes which they do not have. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class KnownAttributesOnly:
    """A mistyped option is an error where it is set; without this Python would make it a new attribute."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know the attributes, and would believe that any may be set

        def __setattr__(self, name: str, value: Any) -> None:
            try:
                object.__setattr__(self, name, value)
            except AttributeError:
                if hasattr(type(self), name):
                    raise
                from ortpkg.names import did_you_mean  # for the message alone

                known = [each for each in dir(self) if not each.startswith("_")]
                kind = type(self).__name__
                raise AttributeError(f"{kind!r} object has no attribute {name!r}{did_you_mean(name, known)}") from None
