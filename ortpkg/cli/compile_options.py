"""Options of the commands that compile, as one group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from ortpkg.cli.completion import complete_backend, complete_device
from ortpkg.cli.parameters import one_of
from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument


class Reader(StrEnum):
    """Program that is to load compiled contexts."""

    ORTPKG = "ortpkg"
    ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True)
class CompileOptions:
    """Options of the compiler, and limits of its process in seconds and bytes."""

    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="D",
            help="Compile for this kind of device.",
            autocompletion=complete_device,
        ),
    ] = None
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="B",
            help=(
                "Backend whose EP compiles: onnxruntime or a plug-in; default: the first that"
                " has it."
            ),
            autocompletion=complete_backend,
        ),
    ] = None
    reader: Annotated[
        Reader,
        typer.Option(
            "--for",
            **one_of(Reader),
            help=(
                "Who shall load the contexts: ortpkg, or onnxruntime's EP of the name"
                " (OpenVINO, QNN), and ortpkg too."
            ),
        ),
    ] = Reader.ORTPKG
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="T",
            help=(
                "Time that compiling may take: 90s, 30min; a number alone is seconds. Default: 1h."
            ),
            show_default=False,
            parser=duration_argument,
        ),
    ] = 3600.0
    memory_limit: Annotated[
        int | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help=(
                "Memory that the process that compiles may hold: 800MB, 2GiB; a number alone is"
                " bytes. Default: the machine's."
            ),
            parser=nbytes_argument,
        ),
    ] = None

    @property
    def for_onnxruntime(self) -> bool:
        """True if onnxruntime's EP shall load the contexts, too."""
        return self.reader is Reader.ONNXRUNTIME
