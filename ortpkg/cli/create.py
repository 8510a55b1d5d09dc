"""``ortpkg create``: makes a whole package from model files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ortpkg.api.packing import pack
from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.authoring.opening import PACKED_SUFFIXES, NamedKind, kind_of
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.package_json import package_json
from ortpkg.cli.parameters import (
    DescriptionOption,
    DryRunOption,
    ForceOption,
    FormatOption,
    ModelVersionOption,
    NameOption,
    OverwriteOption,
)
from ortpkg.cli.progress import Progress, copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import ExitCode, UsageError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.graph.foreign_models import foreign_model
from ortpkg.package.changes.staging import check_is_free, is_replaceable

_Models = list[Path] | None
NewPackageArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PKG",
        help="The new package: name.ortpackage, or name.ortpkg for a file.",
        readable=False,
    ),
]


CpuOption = Annotated[
    _Models, typer.Option("--cpu", metavar="MODEL", help="A variant for the CPU. Repeatable.")
]
GpuOption = Annotated[
    _Models, typer.Option("--gpu", metavar="MODEL", help="A variant for any GPU. Repeatable.")
]
NpuOption = Annotated[
    _Models, typer.Option("--npu", metavar="MODEL", help="A variant for any NPU. Repeatable.")
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="EP[:DEVICE]=MODEL",
        help=("A variant for an execution provider, such as openvino:npu=model.onnx. Repeatable."),
    ),
]
NewComponentOption = Annotated[
    str, typer.Option("--component", "-c", metavar="NAME", help="The component model.")
]


def command(
    output: Output,
    package: NewPackageArgument,
    cpu: CpuOption = None,
    gpu: GpuOption = None,
    npu: NpuOption = None,
    variants: VariantsOption = None,
    component: NewComponentOption = "model",
    name: NameOption = None,
    version: ModelVersionOption = None,
    description: DescriptionOption = None,
    form: FormatOption = "universal",
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Make a whole package from model files, one variant each, named after the files.

    Where PKG ends in .ortpkg, a packed package is made. ortpkg create MODEL.onnx makes
    MODEL.ortpackage, right here.
    """
    models = [
        *(NewVariant.for_cpu(path) for path in cpu or ()),
        *(NewVariant.for_gpu(path) for path in gpu or ()),
        *(NewVariant.for_npu(path) for path in npu or ()),
        *(parse_variant(text) for text in variants or ()),
    ]
    if not models and _names_a_model(package):
        models = [NewVariant(model=package)]
        package = Path(f"{package.stem}.ortpackage")
    disk_operations = operations_for(dry_run)
    with (
        copy_progress() as progress,
        _package_folder(package, progress, disk_operations, overwrite=overwrite) as (
            root,
            operations,
        ),
    ):
        info = create(
            root,
            models,
            name=name,
            component=component,
            version=version,
            description=description,
            form=form,
            force=force,
            overwrite=overwrite,
            operations=operations,
            progress=progress,
            notify=output.warning,
        )
        content = package_json(info) if output.is_json else {}
    if output.is_json:
        output.json(
            "package", {**content, "root": str(package) if root != package else content["root"]}
        )
    else:
        made = ", ".join(variant.name for variant in info.components[0].variants)
        output.note(f"made {package} with component model {component}: {made}")
    return ExitCode.DONE


def _names_a_model(package: Path) -> bool:
    """Return True for a model file, also by the name of one that does not exist."""
    if kind_of(package) is NamedKind.MODEL:
        return True
    is_name_of_one = package.suffix.lower() == ".onnx" or bool(foreign_model(package))
    return is_name_of_one and not os.path.lexists(package)


@contextmanager
def _package_folder(
    package: Path, progress: Progress | None, operations: FileOperations | None, *, overwrite: bool
) -> Iterator[tuple[Path, FileOperations | None]]:
    """Yield the folder to make the package in.

    It is the package's own, or a temporary one that is packed afterwards.
    """
    if package.suffix != PACKED_SUFFIXES[0]:
        yield package, operations
        return
    target = Path(os.path.abspath(package))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    if not (overwrite and is_replaceable(target, is_package=False)):
        check_is_free(target)  # checked before the work
    with TemporaryDirectory(prefix="ortpkg-create-") as folder:
        root = Path(folder, f"{package.stem}.ortpackage")
        yield root, None
        pack(root, target, overwrite=overwrite, progress=progress, operations=operations)


def parse_variant(text: str) -> NewVariant:
    """Parse ``EP[:DEVICE]=MODEL`` as a new variant.

    Raises:
        UsageError: The text has another form.
    """
    target, separator, model = text.partition("=")
    ep, _, device = target.partition(":")
    if not separator or not ep or not model:
        raise UsageError(
            f"--variant {quoted(text)}: write EP=MODEL or EP:DEVICE=MODEL, as in"
            " openvino:npu=model.onnx"
        )
    return NewVariant(model=Path(model), ep=ep, device=device or None)
