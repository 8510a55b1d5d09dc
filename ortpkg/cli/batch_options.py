"""Options of ``ortpkg batch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument, number, whole_number
from ortpkg.scale.batches.parts import MOST_ROWS

ReferenceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PKG",
        help=(
            "The package: a folder (name.ortpackage), a name in the store,"
            " oci://host/repository:tag, packed (name.ortpkg), or an ONNX file; on a cluster it"
            " has to mean the same on every node."
        ),
    ),
]
RowsOption = Annotated[
    list[Path],
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="A file of rows, or a folder of them: Parquet, CSV, JSON lines, npy, png or jpeg."
        " Repeatable.",
    ),
]
FolderOption = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FOLDER", help="Write the outputs to this new folder."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="F",
        help="Format of the output: parquet, csv, jsonl, npy or images; default: the input's.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="INPUT=COLUMN",
        help="Which column feeds an input, or several (a,b,c), a number each; default: by name."
        " Repeatable.",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep", metavar="COLUMN", help="Copy this column of the input to the output. Repeatable."
    ),
]
BatchAxisOption = Annotated[
    list[str] | None,
    typer.Option(
        "--batch-axis",
        metavar="OUTPUT=0",
        help="Take the first dimension of this output for rows, or with OUTPUT=none for no rows;"
        " default: as the names of the model's dimensions say. Repeatable.",
    ),
]
BatchTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="T",
        help="Time that one run may take, of --batch-size rows: 90s, 500ms; a number alone is"
        " seconds. A run that passes it is tried row by row. Default: none.",
        parser=duration_argument,
    ),
]
BatchMemoryLimitOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory that one run of a worker may take, weights included: 500MB, 1.5GiB. Default:"
        " the machine's.",
        parser=nbytes_argument,
    ),
]
ErrorsOption = Annotated[
    Path | None,
    typer.Option(
        "--errors",
        metavar="FILE",
        help="Leave out rows that cannot be read or run, and list them here as JSON lines;"
        " default: stop at the first.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with what is in the output already.")
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size", metavar="N", help="Rows of one run.", parser=whole_number(1, 1 << 20)
    ),
]
PartRowsOption = Annotated[
    int,
    typer.Option(
        "--part-rows",
        metavar="N",
        help="Rows of one part, which is one file of the output.",
        parser=whole_number(1, 1 << 24),
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Number of workers; default: as many as cores and memory of the nodes allow.",
        parser=whole_number(1, 1 << 14),
    ),
]
WorkerThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads", metavar="N", help="Threads of one worker.", parser=whole_number(1, 4096)
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="The Ray cluster to run on (HOST:PORT, or auto); default: one of this machine's own,"
        " which ends with the command.",
    ),
]
InProcessOption = Annotated[
    bool, typer.Option("--in-process", help="Run in this process, without Ray.")
]
SameResultsOption = Annotated[
    float | None,
    typer.Option(
        "--same-results",
        metavar="TOLERANCE",
        help="Refuse nodes that would run variants whose recorded errors (ortpkg bench) differ by"
        " more.",
        parser=number(0),
    ),
]
DEFAULT_PART_ROWS = MOST_ROWS
