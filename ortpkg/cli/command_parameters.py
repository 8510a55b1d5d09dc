"""Parameters of a command as typer reads them, from its signature.

A command takes options that it shares with others as one parameter. Its type is a group, a frozen
dataclass whose fields are declared like parameters::

    @dataclass(frozen=True)
    class LoadLimits:
        timeout: Annotated[float, typer.Option("--timeout", metavar="T")] = 600.0
        memory_limit: Annotated[int | None, typer.Option("--memory-limit")] = None

    def command(output: Output, package: PackageArgument, *, limits: LoadLimits) -> int: ...

typer sees a parameter for each field, at the position of the group and in the order of the fields,
those of base classes first. The flags of all commands follow; the application makes the command's
:class:`Output` of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints

import typer

from ortpkg.cli.parameters import NoColorOption, QuietOption
from ortpkg.cli.rendering import Output


def _print_help(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _print(ctx, is_whole=False)


def _print_whole_help(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _print(ctx, is_whole=True)


def _print(context: typer.Context, *, is_whole: bool) -> None:
    from ortpkg.cli.command_help import print_command_help  # only for help

    print_command_help(context, is_whole=is_whole)
    raise typer.Exit


_HELP = typer.Option(
    "--help", "-h", is_eager=True, callback=_print_help, help="Show this text and exit."
)
_WHOLE_HELP = typer.Option(
    "--help-all", is_eager=True, callback=_print_whole_help, help="Show all options and exit."
)
_COMMON = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON with a schema_version.")],
    "quiet": QuietOption,
    "no_color": NoColorOption,
    "wants_help": Annotated[bool, _HELP],
    "wants_whole_help": Annotated[bool, _WHOLE_HELP],
}


def with_single_options(command: Callable[..., int]) -> Callable[..., int]:
    """Return ``command`` with a parameter for each field in place of each group.

    The result takes keyword arguments only, as typer passes them.

    Raises:
        ValueError: Two parameters have one name.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @functools.wraps(command)
    def single(**values: Any) -> int:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**options)
        return command(**values)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name], parameter.kind)
        else:
            parameters.append(parameter)
    described: Any = single
    described.__signature__ = signature.replace(parameters=parameters)
    return single


def _parameters(group: Any, kind: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a group as parameters of a function."""
    annotations = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, kind, default=default, annotation=annotations[field.name]
        )


def add_common_flags(command: Callable[..., Any]) -> None:
    """Give a command the flags of all commands, in place of its :class:`Output`."""
    signature = inspect.signature(command)
    own = [item for item in signature.parameters.values() if item.annotation is not Output]
    flags = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation
        )
        for name, annotation in _COMMON.items()
    ]
    parameters = [*own, *flags]
    _show_without_word(parameter.annotation for parameter in parameters)
    described: Any = command
    described.__signature__ = signature.replace(parameters=parameters)
    described.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _show_without_word(annotations: Iterable[Any]) -> None:
    """Remove the metavar of flags, which typer shows as <bool> from 0.29 on."""
    for annotation in annotations:
        kind, *declared = get_args(annotation) or (None,)
        if kind in {bool, bool | None}:
            for option in declared:
                option.metavar = ""
