"""``ortpkg select``: selects a variant, and explains why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.opening import is_packed, opened
from ortpkg.cli.choice_options import VariantChoice
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.decision_output import open_decision_log
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.parameters import (
    CompatOption,
    ExternalPathsOption,
    IncludeAbsentOption,
    MaxErrorOption,
    MaxLatencyOption,
    MaxMemoryOption,
    MaxSizeOption,
    MinPrecisionOption,
    ProfilesOption,
    ProviderOptionsOption,
    StrictFactsOption,
    TrustOption,
    WhereOption,
)
from ortpkg.cli.rendering import Output
from ortpkg.cli.selection_table import (
    Choice,
    choice_to_json,
    choose,
    is_table,
    place_of,
    print_table,
    shared_warnings,
)
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.selection.matching.reasons import ep_device_label, no_suitable_variant_message
from ortpkg.selection.matching.wishes import SelectionWishes

PackagesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PKG",
        help=(
            "Packages: directories (name.ortpackage), names in the store, oci://host/repository:tag,"
            " ...; default: the one that the current folder lies in."
        ),
        parser=package_parser(Use.READ),
    ),
]
CheckArchitectureOption = Annotated[
    bool, typer.Option("--check-architecture", help="Evaluate architecture constraints too.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Every variant on every device, with reasons.")
]
CompareOption = Annotated[
    bool,
    typer.Option(
        "--compare", help="Show beside it what onnxruntime 1.27, 1.31 and 1.32 would select."
    ),
]
LogOption = Annotated[
    str | None,
    typer.Option(
        "--log-json",
        metavar="FILE",
        help="Append a record of each decision, a line of JSON; - prints it.",
    ),
]


def command(
    output: Output,
    packages: PackagesArgument = None,
    *,
    choice: VariantChoice,
    provider_option: ProviderOptionsOption = None,
    profile: ProfilesOption = None,
    check_architecture: CheckArchitectureOption = False,
    max_memory: MaxMemoryOption = None,
    max_size: MaxSizeOption = None,
    min_precision: MinPrecisionOption = None,
    where: WhereOption = None,
    max_latency: MaxLatencyOption = None,
    max_error: MaxErrorOption = None,
    strict_facts: StrictFactsOption = False,
    include_absent: IncludeAbsentOption = False,
    show_reasons: ExplainOption = False,
    compare: CompareOption = False,
    log_json: LogOption = None,
    trust: TrustOption = False,
    compat: CompatOption = None,
    allow_external_paths: ExternalPathsOption = False,
) -> int:
    """Choose the best variant for this machine: of one component, or of each where none is named.

    Several packages, or several machine profiles, give a table. Exit code 3 means that somewhere
    nothing fits.
    """
    wishes = replace(
        choice.wishes(provider_option),
        check_architecture=check_architecture,
        max_memory=max_memory,
        max_size=max_size,
        min_precision=min_precision,
        where=where,
        max_latency=max_latency,
        max_error=max_error,
        strict_facts=strict_facts,
        include_absent=include_absent,
    )
    roots = packages or [chosen_package(None, output)]
    profiles = profile or ()
    reading = {"allow_external_paths": allow_external_paths, "trust": trust}
    with _opened(roots, compat, **reading) as (opened_packages, locations):
        if compare:
            if len(opened_packages) > 1 or len(profiles) > 1 or log_json:
                raise UsageError("--compare takes one package and one machine, and logs nothing")
            machine_wishes = replace(wishes, profile=profiles[0] if profiles else None)
            return _compare(opened_packages[0], choice, machine_wishes, output)
        with open_decision_log(log_json, is_json=output.is_json) as log:
            choices = choose(
                opened_packages, locations, choice.component, profiles, replace(wishes, log=log)
            )
        _print_choices(choices, output, show_reasons=show_reasons)
        if not include_absent:
            _note_absent(choices, wishes, output)
    if any(choice.selection.best is None for choice in choices):
        return ExitCode.NO_SUITABLE_VARIANT
    return ExitCode.DONE


@contextmanager
def _opened(
    roots: Sequence[Path], compat: str | None, *, allow_external_paths: bool, trust: bool
) -> Iterator[tuple[list[ModelPackage], list[Path]]]:
    """Yield the packages, and their paths for users; for a packed one, that of its file."""
    with ExitStack() as stack:
        infos = [
            stack.enter_context(
                opened(root, compat=compat, allow_external_paths=allow_external_paths)
            )
            for root in roots
        ]
        packages = [ModelPackage.of(info, trust=trust) for info in infos]
        for package in packages:
            if not package.component_models:
                package.component()  # raises the error that it is empty, with advice
        yield (
            packages,
            [
                Path(root).absolute() if is_packed(root) else info.root
                for root, info in zip(roots, infos, strict=True)
            ],
        )


def _note_absent(choices: Sequence[Choice], wishes: SelectionWishes, output: Output) -> None:
    """Print which absent variant would be selected on this machine."""
    for choice in choices:
        component = choice.package.component(choice.selection.component_name)
        if choice.selection.machine or not any(variant.is_absent for variant in component.variants):
            continue
        best = choice.package.select(component.name, wishes, include_absent=True).best
        if best is not None and best.variant.is_absent:
            from ortpkg.distribution.used_packages import how_to_fetch  # only for this sentence

            unasked = choice.package.select(component.name, include_absent=True).best
            is_best_here = unasked is not None and unasked.variant == best.variant
            how = how_to_fetch(choice.package.root, best.variant, is_best_here=is_best_here)
            output.note(
                f"{component.name}: {best.variant.name} would be chosen here, and its files are"
                f" absent: {how}"
            )


def _compare(
    package: ModelPackage, options: VariantChoice, wishes: SelectionWishes, output: Output
) -> int:
    from ortpkg.cli.comparison_table import (
        print_comparison,  # loaded late: a plain select has to be quick
    )

    names = (
        [options.component]
        if options.component is not None
        else [component_model.name for component_model in package.component_models]
    )
    eps = [name for name in (options.ep or "").split(",") if name]
    return print_comparison(package, names, eps, replace(wishes, ep=None), output)


def _print_choices(choices: Sequence[Choice], output: Output, *, show_reasons: bool) -> None:
    if output.is_json:
        output.json("selection", {"selections": [choice_to_json(choice) for choice in choices]})
    elif not show_reasons and is_table(choices):
        print_table(choices, output)
    else:
        shared = shared_warnings(choices)
        for choice in choices:
            _print_selection(choice, output, shared, show_reasons=show_reasons)
        if not show_reasons:
            for warning in shared:
                output.warning(warning)


def _print_selection(
    choice: Choice, output: Output, shared: Sequence[str], *, show_reasons: bool
) -> None:
    """Print a selection without the ``shared`` warnings, which are printed once."""
    selection = choice.selection
    if show_reasons:
        from ortpkg.cli.explanation_tree import tree_lines  # as above
        from ortpkg.selection.matching.explanation import explain

        output.tree(list(tree_lines(explain(selection))), short=short_ep_names)
        return
    if selection.best is None:
        output.note(no_suitable_variant_message(selection), style="red", is_urgent=True)
        return
    best = selection.best
    machine = f" of machine {selection.machine}" if selection.machine else ""
    where = f"{ep_device_label(best.ep_device)}{machine}"
    output.line(
        f"{selection.component_name}: {best.variant.name} on {where}", style="bold", hang="  "
    )
    output.line(f"  {place_of(choice, best.variant.model_path or best.variant.directory)}")
    if selection.ties:
        output.warning(f"declaration order alone put it before {', '.join(selection.ties)}")
    for warning in selection.warnings:
        if warning not in shared:
            output.warning(warning)
