"""``ortpkg create``: a whole package from model files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.cli.inspect import package_json
from ortpkg.cli.parameters import ForceOption, FormatOption, JsonOption, NameOption, PackageArgument
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output
from ortpkg.errors import ExitCode, UsageError, quoted

_Models = list[Path] | None


def command(
    package: PackageArgument,
    cpu: Annotated[_Models, typer.Option("--cpu", metavar="MODEL", help="A variant for the CPU. Repeatable.")] = None,
    gpu: Annotated[_Models, typer.Option("--gpu", metavar="MODEL", help="A variant for any GPU. Repeatable.")] = None,
    npu: Annotated[_Models, typer.Option("--npu", metavar="MODEL", help="A variant for any NPU. Repeatable.")] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="EP[:DEVICE]=MODEL",
            help="A variant for an execution provider, such as openvino:npu=model.onnx. Repeatable.",
        ),
    ] = None,
    component: Annotated[str, typer.Option("--component", "-c", metavar="NAME", help="The component model.")] = "model",
    name: NameOption = None,
    version: Annotated[str | None, typer.Option("--model-version", metavar="V", help="The package's version.")] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What the model does.")] = None,
    form: FormatOption = "universal",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> int:
    """Make a whole package from model files, one variant each, named after the files."""
    output = Output(is_json=as_json)
    models = [NewVariant.for_cpu(path) for path in cpu or ()]
    models += [NewVariant.for_gpu(path) for path in gpu or ()]
    models += [NewVariant.for_npu(path) for path in npu or ()]
    models += [parse_variant(text) for text in variants or ()]
    with copy_progress() as progress:
        info = create(
            package,
            models,
            name=name,
            component=component,
            version=version,
            description=description,
            form=form,
            force=force,
            progress=progress,
            notify=output.warning,
        )
    if as_json:
        output.json("package", package_json(info))
    else:
        made = ", ".join(variant.name for variant in info.components[0].variants)
        output.note(f"made {package} with component model {component}: {made}")
    return ExitCode.DONE


def parse_variant(text: str) -> NewVariant:
    """``EP[:DEVICE]=MODEL`` as a new variant. UsageError where it has another form."""
    target, separator, model = text.partition("=")
    ep, _, device = target.partition(":")
    if not separator or not ep or not model:
        raise UsageError(f"--variant {quoted(text)}: write EP=MODEL or EP:DEVICE=MODEL, as in openvino:npu=model.onnx")
    return NewVariant(model=Path(model), ep=ep, device=device or None)
