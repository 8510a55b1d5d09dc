"""``ortpkg compile-models``: context models of ONNX files that share one binary, as ep_weight_sharing_ctx_gen makes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ortpkg.cli.completion import complete_ep
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.parameters import (
    CompileBackendOption,
    CompileDeviceOption,
    CompileForOption,
    CompileTimeoutOption,
    DryRunOption,
    JsonOption,
    Reader,
    parse_options,
)
from ortpkg.cli.progress import elapsed
from ortpkg.cli.rendering import Output, duration_text
from ortpkg.errors import ExitCode, ModelNotFoundError, UsageError, quoted
from ortpkg.package.planned_files import PlannedFiles


def command(
    models: Annotated[str, typer.Argument(metavar="A.onnx,B.onnx", help="ONNX files, separated by commas.")],
    ep: Annotated[
        str,
        typer.Option("-e", "--ep", metavar="EP", help="The execution provider.", autocompletion=complete_ep),
    ],
    provider_options: Annotated[
        str, typer.Option("-i", metavar='"KEY|VALUE ..."', help="Options of the EP, separated by spaces.")
    ] = "",
    output_folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Default: the folder of the models.")
    ] = None,
    device: CompileDeviceOption = None,
    backend: CompileBackendOption = None,
    reader: CompileForOption = Reader.ORTPKG,
    timeout: CompileTimeoutOption = 3600.0,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Take models with native contexts of others; what comes out needs --trust too."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Compile ONNX files as one session group: N context models and one binary, equal weights stored once."""
    from ortpkg.api.compiling import compile_model_files  # numpy and onnx
    from ortpkg.session.compile_models import CompileJob, CompileRequest

    output = Output(is_json=as_json)
    sources = [Path(name.strip()) for name in models.split(",") if name.strip()]
    folder = _folder(sources, output_folder)
    request = CompileRequest(
        jobs=tuple(
            CompileJob(model=os.path.abspath(each), output=os.path.abspath(folder / f"{each.stem}_ctx.onnx"))  # noqa: PTH100
            for each in sources
        ),
        ep=ep,
        device=device,
        backend=backend,
        provider_options=parse_options("-i", provider_options.split(), separator="|", form='"KEY|VALUE KEY|VALUE"'),
        is_shared=True,
        for_onnxruntime=reader is Reader.ONNXRUNTIME,
    )
    operations = operations_for(dry_run)
    if operations is not None:
        names = [Path(job.output).name for job in request.jobs]
        operations.announce(PlannedFiles(root=folder, adds=dict.fromkeys(names)))
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    with elapsed("compiling"):
        made = compile_model_files(request, timeout_s=timeout, trust=trust, notify=output.warning)
    files = [str(folder / each.output.name) for each in made]
    binaries = dict.fromkeys(str(folder / name) for each in made for name in each.files)
    if as_json:
        output.json("compile-models", {"models": files, "binaries": list(binaries)})
    else:
        for each in (*files, *binaries):
            output.line(each)
        output.note(f"compiled in {duration_text(time.perf_counter() - start)}")
    return ExitCode.DONE


def _folder(sources: list[Path], wanted: Path | None) -> Path:
    if not sources:
        raise UsageError("name at least one ONNX file; several are separated by commas")
    for each in sources:
        if not each.is_file():
            raise ModelNotFoundError(f"there is no file {quoted(each)}")
    if wanted is not None:
        return wanted
    folders = {each.parent.resolve() for each in sources}
    if len(folders) > 1:
        raise UsageError("the models lie in different folders, and share one binary: say where it goes, with -o DIR")
    return sources[0].parent
