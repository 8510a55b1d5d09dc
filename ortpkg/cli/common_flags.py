"""Flags of all commands, and their form in the help, without a metavar."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args

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


HelpOption = Annotated[
    bool,
    typer.Option(
        "--help",
        "-h",
        is_eager=True,
        callback=_print_help,
        help="Show this text and exit.",
    ),
]
WholeHelpOption = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_print_whole_help,
        help="Show all options and exit.",
    ),
]
_COMMON = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON with a schema_version.")],
    "quiet": QuietOption,
    "no_color": NoColorOption,
    "wants_help": HelpOption,
    "wants_whole_help": WholeHelpOption,
}


def add_common_flags(command: Callable[..., Any]) -> None:
    """Give a command the flags of all commands; typer reads options from the signature.

    The application makes the command's :class:`Output` of them, which is no parameter for typer.
    """
    signature = inspect.signature(command, eval_str=True)
    flags = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation
        )
        for name, annotation in _COMMON.items()
    ]
    own = (item for item in signature.parameters.values() if item.annotation is not Output)
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
