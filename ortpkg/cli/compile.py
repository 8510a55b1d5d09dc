"""``ortpkg compile``: adds variants to a package that are compiled on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ortpkg.cli import interrupts
from ortpkg.cli.compile_options import CompileOptions
from ortpkg.cli.completion import complete_component, complete_ep, complete_variant
from ortpkg.cli.dry_run import operations_for
from ortpkg.cli.early_checks import verify_eps
from ortpkg.cli.parameters import (
    DryRunOption,
    PackageArgument,
    ProviderOptionsOption,
    parse_options,
)
from ortpkg.cli.progress import elapsed
from ortpkg.cli.rendering import Output, duration_text
from ortpkg.foundations.errors import ExitCode, quoted

if TYPE_CHECKING:
    from ortpkg.authoring.compile_variants import CompiledVariant


EpOption = Annotated[
    str | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help="The execution provider that compiles; with --renew, whose variants are renewed.",
        autocompletion=complete_ep,
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        "--component",
        "-c",
        metavar="NAME",
        help="Only this component model.",
        autocompletion=complete_component,
    ),
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help=(
            "A plain variant to compile; default: the first of each component. With --renew, a"
            " compiled one; default: all that are stale. Repeatable."
        ),
        autocompletion=complete_variant,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the new variant; default: SOURCE-EP."),
]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="T",
        help=(
            "With --ep llvm, a CPU to make code for: linux-x86_64_v3, linux-aarch64, ...; default:"
            " this machine's. Each becomes a variant. Repeatable."
        ),
    ),
]
ForDeviceOption = Annotated[
    str,
    typer.Option(
        "--for-device",
        metavar="D",
        help=(
            "A device that is not here, where the EP compiles for such ones: gpu or npu, KEY=VALUE"
            " as the EP says of it, or the profile of its machine."
        ),
    ),
]
EmbedOption = Annotated[
    bool, typer.Option("--embed", help="Put contexts into the models, not beside them.")
]
ShareWeightsOption = Annotated[
    bool,
    typer.Option(
        "--share-weights", help="Compile all into one folder with one binary, equal weights once."
    ),
]

RenewOption = Annotated[
    bool,
    typer.Option(
        "--renew",
        help=(
            "Make compiled variants anew in their place, as they were made: those whose source has"
            " another model by now."
        ),
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace a compiled variant that has the name already.")
]


def command(
    output: Output,
    package: PackageArgument,
    ep: EpOption = None,
    component: ComponentOption = None,
    variants: VariantsOption = None,
    name: NameOption = None,
    provider_options: ProviderOptionsOption = None,
    targets: TargetsOption = None,
    for_device: ForDeviceOption = "",
    embed: EmbedOption = False,
    share_weights: ShareWeightsOption = False,
    renew: RenewOption = False,
    overwrite: OverwriteOption = False,
    *,
    compiler: CompileOptions,
    dry_run: DryRunOption = False,
) -> int:
    """Compile plain variants for an execution provider of this machine, and add the results.

    Compiles in a child process: a compiler that fails, crashes or hangs, or Ctrl-C, leaves the
    package as it was. Ctrl-C that comes when the variants are in the package already changes
    nothing any more. --dry-run compiles, too: only that tells what would be added.
    """
    verify_eps([ep])
    from ortpkg.authoring.compile_wishes import CompileWishes
    from ortpkg.authoring.compiling import compile_package  # numpy and onnx

    wishes = CompileWishes(
        ep=ep or "",
        device=compiler.device,
        backend=compiler.backend,
        component=component,
        variants=tuple(variants or ()),
        name=name,
        provider_options=parse_options("--provider-option", provider_options),
        targets=tuple(targets or ()),
        for_device=for_device,
        is_embedded=embed,
        shares_weights=share_weights,
        for_onnxruntime=compiler.for_onnxruntime,
        renews=renew,
        overwrites=overwrite,
        timeout_s=compiler.timeout,
        memory_limit_nbytes=compiler.memory_limit,
    )
    start = time.perf_counter()
    with elapsed("compiling"):
        compiled = compile_package(
            package,
            wishes,
            notify=output.warning,
            on_commit=interrupts.too_late,
            operations=operations_for(dry_run),
        )
    _print(compiled, time.perf_counter() - start, output)
    if wishes.rounds_to_bfloat:
        output.note(
            "products are of numbers rounded to bfloat16: ortpkg bench states how far outputs are"
            " off, samples.json how far they may be"
        )
    return ExitCode.DONE


def _print(variants: Sequence[CompiledVariant], duration_s: float, output: Output) -> None:
    if output.is_json:
        rows = [_variant_json(variant) for variant in variants]
        output.json("compile", {"variants": rows, "duration_s": duration_s})
        return
    if not variants:
        output.line("nothing to renew: no compiled variant is stale")
        return
    for variant in variants:
        output.line(_variant_line(variant))
        if advice := _advice(variant):
            output.warning(advice)
    output.note(f"compiled in {duration_text(duration_s)}")


def _variant_json(variant: CompiledVariant) -> dict[str, Any]:
    constraints, share = variant.entry.constraints, variant.compiled.share
    return {
        "component": variant.component,
        "variant": variant.name,
        "source": variant.source,
        "renewed": variant.is_renewed,
        "directory": variant.folder,
        "constraints": {
            "ep": constraints.ep,
            "device": constraints.device,
            "architecture": constraints.architecture,
            "ep_compatibility_info": constraints.ep_compatibility_info,
        },
        "partitions": variant.compiled.partitions,
        "share": None if share is None else asdict(share),
        "left_by": variant.compiled.left_by,
        "other_nodes": variant.compiled.other_nodes,
    }


def _variant_line(variant: CompiledVariant) -> str:
    compiled = variant.compiled
    covered = ""
    if compiled.share is not None and compiled.other_nodes:
        nodes, work = compiled.share.nodes, compiled.share.work
        covered = f" with {nodes:.0%} of the nodes and {work:.0%} of the work"
    left = f", {compiled.other_nodes} nodes left to other EPs" if compiled.other_nodes else ""
    plural = "" if compiled.partitions == 1 else "s"
    renewed = ", made anew" if variant.is_renewed else ""
    return (
        f"{variant.component}/{variant.name}{renewed}: {compiled.partitions} compiled"
        f" partition{plural}{covered}{left}, from {variant.source}, in {variant.folder}"
    )


def _advice(variant: CompiledVariant) -> str:
    """Return advice if the code covers too little for selection to prefer it, else ""."""
    from ortpkg.selection.matching.compiled_speed import (  # as above
        coverage_text,
        is_mostly_compiled,
    )

    share = variant.compiled.share
    if share is None or is_mostly_compiled(share.work, share.calls):
        return ""
    cause = f" ({variant.compiled.left_by})" if variant.compiled.left_by else ""
    return (
        f"{variant.component}/{variant.name} covers"
        f" {coverage_text(share.work, share.calls)}{cause}: where a"
        f" library runs {quoted(variant.source)} whole, that is chosen; a model of another exporter"
        " or with fixed sizes may leave less, and ortpkg bench measures which is faster"
    )
