"""``ortpkg compile-models``: makes context models that share a binary.

The command has the options of ep_weight_sharing_ctx_gen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortpkg.cli import interrupts
from ortpkg.cli.compile_options import CompileOptions
from ortpkg.cli.completion import complete_ep
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.early_checks import verify_eps
from ortpkg.cli.parameters import DryRunOption, OverwriteOption, parse_options
from ortpkg.cli.progress import elapsed
from ortpkg.cli.rendering import Output, duration_text
from ortpkg.foundations.errors import ExitCode, ModelNotFoundError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean_path

if TYPE_CHECKING:
    from ortpkg.runtime.session.compile_models import CompiledModel, CompileJob

#: Entries that the command sets itself, with the only value that may be repeated; None for none.
_OWN_ENTRIES: dict[str, str | None] = {
    "ep.context_enable": "1",
    "ep.context_embed_mode": "0",
    "ep.context_file_path": None,
    "ep.share_ep_contexts": "1",
    "ep.stop_share_ep_contexts": None,
}


ModelsArgument = Annotated[
    str, typer.Argument(metavar="A.onnx,B.onnx", help="ONNX files, separated by commas.")
]
EpOption = Annotated[
    str,
    typer.Option(
        "-e", "--ep", metavar="EP", help="The execution provider.", autocompletion=complete_ep
    ),
]
ProviderOptionsOption = Annotated[
    str,
    typer.Option("-i", metavar='"KEY|VALUE ..."', help="Options of the EP, separated by spaces."),
]
ConfigEntriesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-C",
        metavar='"KEY|VALUE ..."',
        help="Config entries of the sessions, separated by spaces. Repeatable.",
    ),
]
OutputFolderOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Default: the folder of the models."),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Take models with native contexts of others; what comes out needs --trust too.",
    ),
]


def command(
    output: Output,
    models: ModelsArgument,
    ep: EpOption,
    provider_options: ProviderOptionsOption = "",
    config_entries: ConfigEntriesOption = None,
    output_folder: OutputFolderOption = None,
    *,
    compiler: CompileOptions,
    trust: TrustOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Compile ONNX files as one session group: N context models and one binary.

    Equal weights are stored once.

    Compiles in a child process: a compiler that fails, crashes or hangs, or Ctrl-C, leaves the
    folder as it was. --dry-run compiles, too: only that tells which files there would be.
    """
    verify_eps([ep])
    from ortpkg.authoring.compiling import compile_model_files  # numpy and onnx
    from ortpkg.runtime.session.compile_models import CompileRequest

    sources = [Path(name.strip()) for name in models.split(",") if name.strip()]
    folder = _folder(sources, output_folder)
    request = CompileRequest(
        jobs=tuple(_job(source, folder) for source in sources),
        ep=ep,
        device=compiler.device,
        backend=compiler.backend,
        provider_options=_pairs("-i", [provider_options]),
        config_entries=_entries(config_entries or [], output),
        is_shared=True,
        for_onnxruntime=compiler.for_onnxruntime,
        memory_limit_nbytes=compiler.memory_limit,
    )
    start = time.perf_counter()
    with elapsed("compiling"):
        compiled = compile_model_files(
            request,
            timeout_s=compiler.timeout,
            trust=trust,
            overwrite=overwrite,
            notify=output.warning,
            on_commit=interrupts.too_late,
            operations=operations_for(dry_run),
        )
    _print(compiled, folder, output)
    output.note(f"compiled in {duration_text(time.perf_counter() - start)}")
    return ExitCode.DONE


def _job(model: Path, folder: Path) -> CompileJob:
    """Return a job with absolute paths, for a child process.

    Symbolic links are kept.
    """
    from ortpkg.runtime.session.compile_models import CompileJob  # numpy and onnx

    return CompileJob(
        model=os.path.abspath(model),  # noqa: PTH100
        output=os.path.abspath(folder / f"{model.stem}_ctx.onnx"),  # noqa: PTH100
    )


def _print(compiled: Sequence[CompiledModel], folder: Path, output: Output) -> None:
    files = [str(folder / item.output.name) for item in compiled]
    binaries = dict.fromkeys(str(folder / name) for item in compiled for name in item.files)
    if output.is_json:
        output.json("compile-models", {"models": files, "binaries": list(binaries)})
        return
    for item in (*files, *binaries):
        output.line(item)


def _pairs(flag: str, texts: list[str]) -> dict[str, str]:
    """Parse ``KEY|VALUE`` pairs between spaces.

    The first ``|`` separates, and a value may be empty.
    """
    words = [word for text in texts for word in text.split()]
    return parse_options(flag, words, separator="|", form='"KEY|VALUE KEY|VALUE"')


def _entries(texts: list[str], output: Output) -> dict[str, str]:
    """Parse config entries; those that the command sets itself are ignored with a warning."""
    entries = _pairs("-C", texts)
    for key, own_value in _OWN_ENTRIES.items():
        value = entries.pop(key, own_value)
        if value != own_value:
            output.warning(
                f"-C {quoted(f'{key}|{value}')} is passed over: compile-models says that itself"
            )
    return entries


def _folder(sources: list[Path], wanted: Path | None) -> Path:
    if not sources:
        raise UsageError("name at least one ONNX file; several are separated by commas")
    for source in sources:
        if not source.is_file():
            raise ModelNotFoundError(
                f"there is no file {quoted(source)}{did_you_mean_path(source)}"
            )
    if wanted is not None:
        return wanted
    folders = {source.parent.resolve() for source in sources}
    if len(folders) > 1:
        raise UsageError(
            "the models lie in different folders, and share one binary: say where it goes, with"
            " -o DIR"
        )
    return sources[0].parent
