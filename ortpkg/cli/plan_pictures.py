"""Character pictures of ``ortpkg plan``: who runs each step, and how many bytes are in use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.drawing.text_pictures import (
    cell,
    cell_map,
    cell_width,
    column_chart,
    column_of,
    letter,
)
from ortpkg.foundations.ep_names import short_ep_names

if TYPE_CHECKING:
    from ortpkg.runtime.session.session_plan import GraphPlan

#: Styles of the cells of execution providers, in order of first use.
_STYLES = (
    "black on cyan",
    "black on yellow",
    "black on green",
    "black on magenta",
    "black on bright_blue",
    "black on bright_red",
)
_CHART_HEIGHT = 3
_LONGEST_NAME = 40


def print_partition_map(graph: GraphPlan, output: Output) -> None:
    """Print a letter for each step of ``graph`` that tells which execution provider runs it."""
    counts = Counter(node.provider for node in graph.nodes)
    if not counts:
        return
    numbers = {provider: number for number, provider in enumerate(counts)}
    columns, steps = output.room.columns, len(graph.nodes)
    legend = [("who runs each step: ", "")]
    for provider, number in numbers.items():
        legend.append((", " if number else "", ""))
        legend.append((letter(number), _style(number)))
        legend.append(
            (f" {shortened(short_ep_names(provider), _LONGEST_NAME)} ({counts[provider]})", "")
        )
    if steps > columns:
        legend.append((" (several steps share a letter)", ""))
    output.spans(legend)
    runs = cell_map([numbers[node.provider] for node in graph.nodes], columns)
    width, is_unicode = cell_width(steps, columns), output.room.is_unicode
    output.spans(
        [
            (cell(number, width, is_unicode=is_unicode) * cells, _style(number))
            for number, cells in runs
        ]
    )


def print_memory_chart(graph: GraphPlan, output: Output) -> None:
    """Print the bytes in use at each step as columns, aligned with the map of steps."""
    from ortpkg.runtime.session.memory_profile import (  # with the engine
        bytes_in_use,
        laid_out_values,
    )

    values = laid_out_values(graph)
    if not values:
        return
    room, steps = output.room, len(graph.nodes)
    in_use = bytes_in_use(values, steps)
    most = max(in_use)
    step = in_use.index(most)
    width = cell_width(steps, room.columns)
    start = column_of(step, steps, room.columns)
    for line in column_chart(in_use, room.columns, _CHART_HEIGHT, is_unicode=room.is_unicode):
        before, marked, after = line[:start], line[start : start + width], line[start + width :]
        output.spans([(before, "cyan"), (marked, "red"), (after.rstrip(), "cyan")])
    operator = shortened(graph.nodes[step].op_type, _LONGEST_NAME)
    label = f"most in use at step {step} ({operator}): {nbytes_text(most)}"
    _print_mark(start, label, output)


def _print_mark(column: int, words: str, output: Output) -> None:
    """Print ``words`` under a column of the line before.

    They are right of it, left of it, or one line lower.
    """
    mark = "↑" if output.room.is_unicode else "^"
    if column + len(words) + 2 <= output.room.columns:
        lines = [f"{' ' * column}{mark} {words}"]
    elif len(words) < column:
        lines = [f"{words} {mark}".rjust(column + 1)]
    else:
        lines = [" " * column + mark, words]
    for line in lines:
        output.spans([(line, "red")])


def _style(number: int) -> str:
    return _STYLES[number % len(_STYLES)]
