"""The flags that all commands have, and how the help shows flags: without a word behind them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args

import typer

from ortpkg.cli.parameters import NoColorOption, QuietOption


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
    "quiet": QuietOption,
    "no_color": NoColorOption,
    "wants_help": HelpOption,
    "wants_whole_help": WholeHelpOption,
}


def add_common_flags(command: Callable[..., Any]) -> None:
    """Gives a command the flags that all commands have; typer reads options off the signature."""
    signature = inspect.signature(command, eval_str=True)
    flags = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation
        )
        for name, annotation in _COMMON.items()
    ]
    parameters = [*signature.parameters.values(), *flags]
    _show_without_word(each.annotation for each in parameters)
    described: Any = command
    described.__signature__ = signature.replace(parameters=parameters)
    described.__annotations__ = {each.name: each.annotation for each in parameters}


def _show_without_word(annotations: Iterable[Any]) -> None:
    """typer from 0.29 on writes <bool> behind a flag, as if it took a word, unless told another."""
    for annotation in annotations:
        kind, *declared = get_args(annotation) or (None,)
        if kind in {bool, bool | None}:
            for each in declared:
                each.metavar = ""
