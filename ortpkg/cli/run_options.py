"""Options of ``ortpkg run``, some of which other commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import number, whole_number

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the outputs to this npz file."),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="Threads within an operator; default: one per CPU.",
        parser=whole_number(1, 4096),
    ),
]
IsolateOption = Annotated[
    bool | None,
    typer.Option(
        "--isolate/--no-isolate",
        help=(
            "Run onnxruntime, OpenVINO and plug-ins in a child process, so that limits hold and a"
            " crash is told. Default: where --timeout or --memory-limit is given."
        ),
    ),
]
MinOffloadOption = Annotated[
    float | None,
    typer.Option(
        "--min-offload",
        metavar="PERCENT",
        help="Exit code 1 where fewer of 100 nodes run where they were meant to.",
        parser=number(0, 100),
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit code 1 where an EP took no node, or the CPU stood in for what was asked.",
    ),
]
CanaryOption = Annotated[
    bool,
    typer.Option(
        "--canary/--no-canary",
        help=(
            "First try the variant in a child process, for --timeout, at most 2min; one that fails"
            " goes into quarantine (not where it had less time), the next best runs."
        ),
    ),
]
AllowFallbackOption = Annotated[
    bool,
    typer.Option(
        "--allow-fallback",
        help=(
            "Let others run the model if the execution provider that was named takes no node of"
            " it; without this that is an error."
        ),
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Keep what is compiled for the next time; see ortpkg cache."
    ),
]
VerifyOption = Annotated[
    bool,
    typer.Option("--verify/--no-verify", help="First compare what is loaded with digests.json."),
]
