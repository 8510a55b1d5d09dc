"""``ortpkg merge``: combines separately delivered variants of one model in one package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.merge import merge
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import DryRunOption, NewPackageOption, OverwriteOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.package.sidecar import signature_names

_FORMS = "write ortpkg merge A B -o NEW, or ortpkg merge B --into A"


PackagesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PKG",
        help="Two packages, or one with --into.",
        parser=package_parser(Use.READ_ALL),
    ),
]
IntoOption = Annotated[
    Path | None,
    typer.Option(
        "--into",
        metavar="PKG",
        help="The package that is to take it in.",
        parser=package_parser(Use.CHANGE),
    ),
]


def command(
    output: Output,
    packages: PackagesArgument,
    output_path: NewPackageOption = None,
    into: IntoOption = None,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Bring the variants of two packages of one model together.

    Contradictions are all named, and refused. What comes out has to be signed again.
    """
    first, second = _chosen(packages, output_path, into)
    with copy_progress() as progress:
        info = merge(
            first,
            second,
            output=output_path,
            progress=progress,
            notify=output.warning,
            overwrite=overwrite,
            operations=operations_for(dry_run),
        )
    if output.is_json:
        unsigned_sources = [] if output_path is None else [first, second]
        signed = [
            str(source / name) for source in unsigned_sources for name in signature_names(source)
        ]
        output.json("package", {**package_json(info), "lost_signatures": signed})
    else:
        names = ", ".join(
            f"{component.name} ({len(component.variants)} variants)"
            for component in info.components
        )
        output.note(f"{output_path or first} has {names}")
    return ExitCode.DONE


def _chosen(packages: list[Path], output_path: Path | None, into: Path | None) -> tuple[Path, Path]:
    if into is not None and output_path is None and len(packages) == 1:
        return into, packages[0]
    if into is None and output_path is not None and len(packages) == 2:
        return packages[0], packages[1]
    raise UsageError(f"two packages make one: {_FORMS}")
