"""What a command line says of a model's inputs: files, or random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.errors import UsageError, quoted
from ortpkg.names import did_you_mean_path


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """The inputs of one run; false where nothing was given.

    Attributes:
        files: ``NAME=FILE`` texts.
        seed: of random values for what the files leave open; None: there are to be none.
        sizes: symbolic dimension → size, for random values.
        resize: resample pictures.

    Raises UsageError for sizes without random values, and for a file that is not there.
    """

    files: Sequence[str]
    seed: int | None
    sizes: Mapping[str, int]
    resize: bool

    def __post_init__(self) -> None:
        if self.sizes and self.seed is None:
            raise UsageError("--dim gives random inputs a size: it needs --random")
        for text in self.files:
            _verify_is_there(text)

    def __bool__(self) -> bool:
        return bool(self.files) or self.seed is not None

    def feeds(
        self, inputs: Sequence[Any], value_ranges: Mapping[str, tuple[float, float]]
    ) -> dict[str, Any]:
        """The feeds of a session that takes ``inputs``.

        Errors as :func:`ortpkg.arrays.given_feeds.read_feeds`.
        """
        from ortpkg.arrays.given_feeds import random_feeds, read_feeds  # numpy

        given = read_feeds(self.files, inputs, value_ranges, resize=self.resize)
        if self.seed is None:
            return given
        return random_feeds(
            inputs, given, sizes=self.sizes, value_ranges=value_ranges, seed=self.seed
        )


def _verify_is_there(text: str) -> None:
    """Raise UsageError if the file of ``[NAME=]FILE`` does not exist, before a model is loaded.

    Other faults of the file are reported when it is read.
    """
    name, separator, file = text.partition("=")
    path = file if separator else name
    try:
        Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: a null character
        reason = getattr(error, "strerror", None) or error
        hint = did_you_mean_path(path) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {quoted(path)}: {reason}{hint}") from error


def parse_sizes(assignments: Sequence[str] | None) -> dict[str, int]:
    """``NAME=SIZE`` texts of ``--dim``. UsageError for another form."""
    found: dict[str, int] = {}
    for assignment in assignments or ():
        name, separator, size = assignment.rpartition("=")
        if not (separator and name and size.isascii() and size.isdigit()):
            raise UsageError(
                f"--dim {quoted(assignment)}: give a dimension and its size, as batch=1"
            )
        found[name] = int(size)
    return found
