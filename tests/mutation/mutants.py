"""Run by the Python with cosmic-ray, not ours: lists mutations of files, and makes them.

Reads ``{"list": [file, ...]}`` or ``{"apply": [mutant, ...]}`` as JSON and writes a list of
mutants: where each is, by which operator, and, after ``apply``, the file's new text as ``code``.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


def mutants_of(file: str) -> Iterator[dict[str, Any]]:
    nodes = list(ast_nodes(get_ast(Path(file).read_text(encoding="utf-8"))))
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():
            continue  # those that replace named variables
        operator = operator_class()
        positions = [position for node in nodes for position in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(positions):
            yield {
                "file": file,
                "operator": name,
                "occurrence": occurrence,
                "start": start,
                "end": end,
            }


def applied(mutant: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The mutant with its code.

    None where the tool fails over it, as over ``except (json.JSONDecodeError, ...)``.
    """
    code = Path(mutant["file"]).read_text(encoding="utf-8")
    with contextlib.suppress(AttributeError):
        yield mutant | {
            "code": mutate_code(code, get_operator(mutant["operator"])(), mutant["occurrence"])
        }


def main() -> None:
    request = json.load(sys.stdin)
    if "list" in request:
        answer = [mutant for file in request["list"] for mutant in mutants_of(file)]
    else:
        answer = [each for mutant in request["apply"] for each in applied(mutant)]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
