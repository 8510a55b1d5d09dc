"""Help of one command: its purpose, its options by group, and examples.

typer's own help divides the width among five columns, which leaves 19 of 80 characters to
descriptions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

import typer

from ortpkg.cli.help import EXAMPLES
from ortpkg.cli.option_groups import GENERAL, OPTION_GROUPS, OptionGroups
from ortpkg.cli.rendering import Output
from ortpkg.cli.wrapping import wrapped

_LEAST_COLUMNS = 40
#: Column of descriptions; a longer option has a line to itself.
_MARGIN = 30
_LABEL = "bold cyan"


def print_command_help(context: typer.Context, *, is_whole: bool) -> None:
    """Print help for the command of ``context``, with all options if ``is_whole``."""
    page = _Page()
    page.heading(context.command.get_usage(context))
    for paragraph in (context.command.help or "").split("\n\n"):
        page.blank()
        page.text(" ".join(paragraph.split()))
    arguments, options = _described_parameters(context)
    page.entries("Arguments", arguments)
    name = context.info_name or ""
    groups = OPTION_GROUPS.get(name) or OptionGroups(common={"Options": _own(options)})
    shown = {**groups.common, **groups.rare} if is_whole else groups.common
    for heading, names in [*shown.items(), ("General", GENERAL)]:
        page.entries(heading, [options[name] for name in names])
    left_out = 0 if is_whole else sum(map(len, groups.rare.values()))
    if left_out:
        page.blank()
        page.text(f"{left_out} more options: {context.command_path} --help-all")
    page.blank()
    page.heading("Examples")
    for example in EXAMPLES[name]:
        page.example(example)


def _own(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in options if name not in GENERAL)


def _described_parameters(
    context: typer.Context,
) -> tuple[list[tuple[str, str]], dict[str, tuple[str, str]]]:
    """Return label and description of each argument, and of each option by its longest name."""
    arguments: list[tuple[str, str]] = []
    options: dict[str, tuple[str, str]] = {}
    for parameter in context.command.params:
        record = parameter.get_help_record(context)
        if record is None:  # hidden
            continue
        if parameter.param_type_name == "argument":
            arguments.append(record)
        else:
            options[max(parameter.opts, key=len)] = record
    return arguments, options


class _Page:
    """Lines of help, as wide as the terminal or COLUMNS."""

    def __init__(self) -> None:
        self._output = Output()
        self._columns = max(_LEAST_COLUMNS, shutil.get_terminal_size().columns)

    def blank(self) -> None:
        self._output.line()

    def heading(self, text: str) -> None:
        self._output.line(text, style="bold")

    def text(self, text: str, *, hang: str = "") -> None:
        for line in wrapped(text, self._columns, hang=hang):
            self._output.line(line)

    def example(self, command_line: str) -> None:
        """Print a command line for copying, continued on several lines if needed."""
        lines = wrapped(f"  {command_line}", self._columns - 2, hang=" " * 6)
        for line in lines[:-1]:
            self._output.line(f"{line} \\")
        self._output.line(lines[-1])

    def entries(self, heading: str, entries: Sequence[tuple[str, str]]) -> None:
        """Print labels with their descriptions beside them; print nothing for an empty list."""
        if not entries:
            return
        self.blank()
        self.heading(heading)
        for label, description in entries:
            for spans in self._entry(label, " ".join(description.split())):
                self._output.spans(spans)

    def _entry(self, label: str, description: str) -> Iterator[list[tuple[str, str]]]:
        lines = wrapped(description, self._columns - _MARGIN)
        if len(label) + 4 > _MARGIN:
            yield [(f"  {label}", _LABEL)]
        else:
            yield [(f"  {label:<{_MARGIN - 2}}", _LABEL), (lines.pop(0), "")]
        for line in lines:
            yield [(" " * _MARGIN + line, "")]
