"""Options that only ``ortpkg plan`` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.quantity_arguments import whole_number

ModelArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="MODEL|PKG",
        help=(
            "An ONNX file, or a package (a folder, packed, a name in the store, oci://...);"
            " default: what the current folder lies in."
        ),
        parser=package_parser(Use.READ),
    ),
]
PlanBackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="B",
        help="Backend that plans it; default: embedded, or the one that offers the --ep.",
    ),
]
LevelOption = Annotated[
    str,
    typer.Option(
        "--optimization-level", metavar="L", help="none, basic, extended or all (default)."
    ),
]
FixedDimensionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="Fix a symbolic dimension, so that sizes are known."
    ),
]
SizesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        metavar="NAME=SIZE",
        help="Show the memory at this size of a dimension, which stays symbolic in the plan.",
    ),
]
NodesOption = Annotated[bool, typer.Option("--nodes", help="Every node in order of execution.")]
MemoryOption = Annotated[
    bool,
    typer.Option("--memory", help="Peak, and where each value lies and how long it lives."),
]
PartitionOption = Annotated[
    str,
    typer.Option(
        "--partition",
        metavar="P",
        help="How nodes are divided among EPs: first-come (default), or cost (shows both).",
    ),
]
CostsOption = Annotated[
    str | None,
    typer.Option(
        "--costs", metavar="FILE", help="With --partition cost: what things cost, as JSON."
    ),
]
SvgOption = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Draw the memory's timeline.")
]
IrOption = Annotated[
    bool,
    typer.Option("--ir", help="Show what compiled partitions became, stage by stage (--ep llvm)."),
]
StageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stage",
        metavar="STAGE",
        help=(
            "With --ir, of these stages: tensor, fused, blocked, kernels, llvm, assembly, steps;"
            " default: all but llvm and assembly."
        ),
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="With --ir, this kernel; default: all."),
]
LinesOption = Annotated[
    int,
    typer.Option(
        "--lines",
        metavar="N",
        parser=whole_number(1),
        help="With --ir, so many lines of each stage.",
    ),
]
