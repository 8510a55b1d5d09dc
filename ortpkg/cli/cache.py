"""``ortpkg cache``: shows and clears contexts that sessions compiled and kept (``run --cache``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ortpkg.authoring.opening import NamedKind, kind_of, package_folder
from ortpkg.cli.choice_options import VariantFilter
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.package_argument import Use, package_parser
from ortpkg.cli.parameters import BackendOption, DryRunOption, TrustOption, one_of
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import ep_named, short_ep_names
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.foundations.quantities import nbytes_text, parse_nbytes
from ortpkg.foundations.storage.planned_files import PlannedFiles, RehearsalEnd

if TYPE_CHECKING:
    from ortpkg.api.doctor.cache_answers import CacheAnswer
    from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome
    from ortpkg.runtime.ep_context.ep_context_cache import CachedContext, EpContextCache


class Action(StrEnum):
    """Action of the command."""

    LIST = "list"
    WHY = "why"
    CLEAR = "clear"


ActionArgument = Annotated[
    Action,
    typer.Argument(
        **one_of(Action),
        help="list shows it, why says what is not found and what differs, clear deletes.",
    ),
]
CacheTargetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PKG|MODEL",
        help=(
            "For why: a package (default: that of the current folder), or an ONNX file with --ep."
        ),
        parser=package_parser(Use.READ),
    ),
]
KeepOption = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="SIZE",
        help="For clear: keep what was used last, up to 500MB, 2GiB; a number alone is bytes.",
    ),
]


def command(
    output: Output,
    action: ActionArgument = Action.LIST,
    target: CacheTargetArgument = None,
    *,
    choice: VariantFilter,
    backend: BackendOption = "auto",
    keep: KeepOption = None,
    trust: TrustOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Show, explain or clear the contexts that sessions compiled and kept on this machine."""
    if dry_run and action is not Action.CLEAR:
        raise UsageError(f"cache {action} changes nothing: --dry-run goes with clear")
    if action is Action.WHY:
        what = chosen_package(target, output)
        if kind_of(what) is NamedKind.MODEL:
            return _why(_answers(what, choice, backend, trust=trust), output)
        with package_folder(what) as root:
            return _why(_answers(root, choice, backend, trust=trust), output)
    if target is not None:
        raise UsageError(f"cache {action} takes no package or model")
    if action is Action.CLEAR:
        return _clear(choice.ep, keep, output, dry_run=dry_run)
    return _list(choice.ep, output)


def _list(ep: str | None, output: Output) -> int:
    from ortpkg.runtime.ep_context.cache_leftovers import find_leftovers
    from ortpkg.runtime.ep_context.cache_outcome import damaged_entries
    from ortpkg.runtime.ep_context.ep_context_cache import (  # numpy
        EpContextCache,
        context_cache_directory,
    )

    cache = EpContextCache(context_cache_directory())
    damaged_contexts = damaged_entries(cache)
    flawed = {item.key for item in damaged_contexts}
    entries = [item for item in _entries_of(cache, ep) if item.key not in flawed]
    damaged, leftovers = (
        (damaged_contexts, find_leftovers(cache.directory)) if ep is None else ([], [])
    )
    if output.is_json:
        lost = [{"key": item.key, "nbytes": item.nbytes, "why": item.why} for item in damaged]
        left = [{"file": item.path.name, "nbytes": item.nbytes} for item in leftovers]
        found_here = {"entries": _entry_rows(entries), "damaged": lost, "leftovers": left}
        output.json("cache", {"directory": str(cache.directory), **found_here})
        return ExitCode.DONE
    for item in damaged:
        output.line(
            f"{item.key[:12]} is damaged, {nbytes_text(item.nbytes)}:"
            f" {item.why}; ortpkg cache clear deletes it"
        )
    if leftovers:
        half = nbytes_text(sum(item.nbytes for item in leftovers))
        output.line(
            f"{_files(len(leftovers))} half written, {half}; ortpkg cache clear deletes them"
        )
    if entries:
        _print_entries(entries, cache.directory, output)
    elif not damaged and not leftovers:
        output.line(f"the cache in {cache.directory} is empty")
    return ExitCode.DONE


def _entry_rows(entries: Iterable[CachedContext]) -> list[dict[str, Any]]:
    return [
        {
            "key": entry.key,
            "model": entry.model,
            "partition": entry.partition,
            "nbytes": entry.nbytes,
            "used_at": _time(entry.used_ns),
            "descriptor": entry.descriptor.to_json(),
        }
        for entry in entries
    ]


def _print_entries(entries: Sequence[CachedContext], directory: Path, output: Output) -> None:
    columns = [
        Column("key"),
        Column("execution provider", short=short_ep_names),
        Column("device", drops=5),
        Column("SDK version", drops=2),
        Column("architecture", drops=1),
        Column("model"),
        Column("partition", drops=3),
        Column("used", drops=4),
        Column("size", is_numeric=True),
    ]
    output.table(
        columns,
        [
            (
                entry.key[:12],
                entry.descriptor.ep,
                entry.descriptor.device,
                entry.descriptor.sdk_version,
                entry.descriptor.architecture,
                Path(entry.model).name or "from memory",
                entry.partition,
                _time(entry.used_ns),
                nbytes_text(entry.nbytes),
            )
            for entry in entries
        ],
    )
    total = sum(entry.nbytes for entry in entries)
    plural = "" if len(entries) == 1 else "s"
    output.note(f"{len(entries)} context{plural}, {nbytes_text(total)}, in {directory}")


def _clear(ep: str | None, keep: str | None, output: Output, *, dry_run: bool) -> int:
    from ortpkg.runtime.ep_context.cache_clearing import clearing_of  # numpy
    from ortpkg.runtime.ep_context.ep_context_cache import (  # as above
        EpContextCache,
        context_cache_directory,
    )

    if keep is not None and ep is not None:
        raise UsageError("--keep counts all contexts: it goes without --ep")
    cache = EpContextCache(context_cache_directory())
    clearing = clearing_of(
        cache,
        ep=None if ep is None else ep_named(ep, _names_in(cache)),
        most_nbytes=None if keep is None else parse_nbytes(keep, "--keep"),
    )
    if dry_run:
        names = tuple(path.relative_to(cache.directory).as_posix() for path in clearing.files())
        raise RehearsalEnd(PlannedFiles(root=cache.directory, removes=names))
    clearing.carry_out()
    count, leftovers = len(clearing.contexts), len(clearing.leftovers)
    if output.is_json:
        output.json("cache", {"cleared": count, "leftovers": leftovers})
    else:
        of_these = f", {clearing.damaged} of these damaged" if clearing.damaged else ""
        beside = f"; and {_files(leftovers)}" if leftovers else ""
        output.line(f"{count} context{'' if count == 1 else 's'} deleted{of_these}{beside}")
    return ExitCode.DONE


def _entries_of(cache: EpContextCache, ep: str | None) -> list[CachedContext]:
    """Return the contexts of an execution provider, or all.

    Raises:
        UsageError: The name is unknown.
    """
    entries = cache.entries()
    if ep is None:
        return list(entries)
    name = ep_named(ep, _names_in(cache))
    return [entry for entry in entries if entry.descriptor.ep == name]


def _names_in(cache: EpContextCache) -> set[str]:
    """Return the known execution providers, and those whose contexts are in the cache."""
    from ortpkg.runtime.providers.ep_registry import all_known_names  # as above

    return {*all_known_names(), *(entry.descriptor.ep for entry in cache.entries())}


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} that killed sessions left"


def _answers(
    target: Path, choice: VariantFilter, backend: str, *, trust: bool
) -> list[CacheAnswer]:
    from ortpkg.api.doctor.cache_answers import explain_model, explain_variant  # numpy and onnx
    from ortpkg.api.model_package import ModelPackage
    from ortpkg.selection.matching.wishes import SelectionWishes

    if not target.is_dir():
        if choice.ep is None:
            raise UsageError("a model file needs --ep: which execution provider is it about?")
        return [explain_model(target, choice.ep, choice.device)]
    package = ModelPackage(target, trust=trust)
    names = (
        [choice.component]
        if choice.component is not None
        else [component_model.name for component_model in package.component_models]
    )
    wishes = SelectionWishes(
        variant=choice.variant, ep=choice.ep, device=choice.device, backend=backend
    )
    return [
        explain_variant(
            package.best_variant(name, wishes), package.info, backend=backend, trust=trust
        )
        for name in names
    ]


def _why(answers: list[CacheAnswer], output: Output) -> int:
    if output.is_json:
        rows = [
            {
                "what": answer.what,
                "ep": answer.ep_name,
                "compiles": answer.outcomes is not None,
                "partitions": [_outcome_json(outcome) for outcome in answer.outcomes or ()],
            }
            for answer in answers
        ]
        output.json("cache-why", {"sessions": rows})
        return ExitCode.DONE
    for answer in answers:
        subject = f"{answer.what} on {answer.ep_name}"
        if answer.outcomes is None:
            output.line(
                f"{subject}: this execution provider compiles nothing, so nothing is cached"
            )
        elif not answer.outcomes:
            output.line(
                f"{subject}: nothing to compile: it takes no nodes, or the model is compiled"
                " already"
            )
        for outcome in answer.outcomes or ():
            output.line(f"{subject}: partition {outcome.partition}: {_outcome_text(outcome)}")
    return ExitCode.DONE


def _outcome_text(outcome: CacheOutcome) -> str:
    if outcome.damage:
        return f"damaged in the cache, so it will be compiled anew: {outcome.damage}"
    if outcome.is_hit:
        return "in the cache"
    if outcome.mismatch is None:
        return "not in the cache: nothing of this model is"
    return f"not in the cache: of what is, the {outcome.mismatch}"


def _outcome_json(outcome: CacheOutcome) -> dict[str, Any]:
    mismatch = outcome.mismatch
    return {
        "partition": outcome.partition,
        "is_hit": outcome.is_hit,
        "damage": outcome.damage or None,
        "differs": (
            None
            if mismatch is None
            else {"field": mismatch.field, "recorded": mismatch.recorded, "needed": mismatch.needed}
        ),
        "descriptor": outcome.descriptor.to_json(),
    }


def _time(used_ns: int) -> str:
    return datetime.fromtimestamp(used_ns / 1e9).astimezone().isoformat(timespec="seconds")
