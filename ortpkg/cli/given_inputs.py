"""Inputs of a model as the command line gives them: files, or random values, and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ortpkg.cli.completion import complete_input
from ortpkg.cli.quantity_arguments import whole_number
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean_path

ResizeOption = Annotated[
    bool, typer.Option("--resize", help="Resample pictures to the size that an input has.")
]


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """Inputs of one run; false if there are none.

    Attributes:
        files: ``NAME=FILE`` texts.
        seed: Seed of random values for the other inputs; None for no random values.
        sizes: Sizes of symbolic dimensions of random values.
        resize: True to resample pictures.

    Raises:
        UsageError: There are sizes without random values, or a file does not exist.
    """

    files: Sequence[str]
    seed: int | None
    sizes: Mapping[str, int]
    resize: bool

    def __post_init__(self) -> None:
        if self.sizes and self.seed is None:
            raise UsageError("--dim gives random inputs a size: it needs --random")
        for text in self.files:
            _verify_exists(text)

    def __bool__(self) -> bool:
        return bool(self.files) or self.seed is not None

    def feeds(
        self, inputs: Sequence[Any], value_ranges: Mapping[str, tuple[float, float]]
    ) -> dict[str, Any]:
        """Return the feeds of a session with these inputs.

        Raises:
            OrtpkgError: See :func:`ortpkg.graph.given_feeds.read_feeds`.
        """
        from ortpkg.graph.given_feeds import random_feeds, read_feeds  # numpy

        file_feeds = read_feeds(self.files, inputs, value_ranges, resize=self.resize)
        if self.seed is None:
            return file_feeds
        return random_feeds(
            inputs, file_feeds, sizes=self.sizes, value_ranges=value_ranges, seed=self.seed
        )


def _verify_exists(text: str) -> None:
    """Raise UsageError if the file of ``[NAME=]FILE`` does not exist, before a model is loaded.

    Other problems of the file are reported when it is read.
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
    """Parse ``NAME=SIZE`` texts of ``--dim``.

    Raises:
        UsageError: A text has another form.
    """
    sizes: dict[str, int] = {}
    for assignment in assignments or ():
        name, separator, size = assignment.rpartition("=")
        if not (separator and name and size.isascii() and size.isdigit()):
            raise UsageError(
                f"--dim {quoted(assignment)}: give a dimension and its size, as batch=1"
            )
        sizes[name] = int(size)
    return sizes


@dataclass(frozen=True)
class InputOptions:
    """Files with inputs, and random values for the inputs without a file."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]FILE",
            help=(
                "An input from an npy, npz, png or jpeg file; without a name, all that an npz file"
                " has. Repeatable."
            ),
            autocompletion=complete_input,
        ),
    ] = None
    random: Annotated[
        bool,
        typer.Option("--random", help="Random values for the inputs that --input leaves open."),
    ] = False
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", help="Seed of --random.", parser=whole_number(0)),
    ] = 0
    dimensions: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="NAME=SIZE",
            help="A size for a symbolic dimension of --random. Repeatable.",
        ),
    ] = None
    resize: ResizeOption = False

    def given(self) -> GivenInputs:
        """Return the inputs that the options give.

        Raises:
            UsageError: A size has another form or needs --random, or a file does not exist.
        """
        return GivenInputs(
            self.inputs or (),
            self.seed if self.random else None,
            parse_sizes(self.dimensions),
            resize=self.resize,
        )
