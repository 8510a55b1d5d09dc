"""Secret text: a password or a token."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from ortpkg.foundations.errors import forget, hide


class Secret:
    """Secret text, which printing, logging and pickling never show.

    Messages, logs and outputs do not show the text either if somebody else repeats it. Two secrets
    are equal if their texts are equal.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text
        hide(text)

    def __del__(self, _is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not _is_ending():  # by then the interpreter has cleared names of modules
            forget(self._text)

    def reveal(self) -> str:
        """Return the text, for the one place that sends or stores it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "Secret(...)"

    def __format__(self, _specification: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied to a file")


NO_SECRET = Secret("")
