"""Which lines changed since a commit, and which parts of a file no test can notice a change of."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILE = re.compile(r"^\+\+\+ b/(.+)$")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")

Position = tuple[int, int]


def changed_lines(checkout: Path, base: str, folder: str) -> dict[str, frozenset[int]]:
    """Lines of Python files below ``folder`` that differ from commit ``base``, by file.

    Files that git does not know yet are new with all of their lines.
    """
    diff = _git(
        checkout, "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", f"{folder}/*.py"
    )
    changed = lines_of_diff(diff)
    for file in _git(
        checkout, "ls-files", "--others", "--exclude-standard", "--", f"{folder}/*.py"
    ).splitlines():
        changed[file] = frozenset(
            range(1, len(Path(checkout, file).read_text(encoding="utf-8").splitlines()) + 1)
        )
    return changed


def lines_of_diff(diff: str) -> dict[str, frozenset[int]]:
    """Numbers of the new and changed lines, by file, in what ``git diff --unified=0`` writes."""
    lines: dict[str, set[int]] = {}
    file = ""
    for line in diff.splitlines():
        if found := _FILE.match(line):
            file = found[1]
        elif line.startswith("+++ "):
            file = ""  # deleted
        elif file and (found := _HUNK.match(line)):
            first, count = int(found[1]), int(found[2] if found[2] is not None else 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return {name: frozenset(numbers) for name, numbers in lines.items() if numbers}


def _git(checkout: Path, *arguments: str) -> str:
    finished = subprocess.run(
        ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise SystemExit(f"git {arguments[0]}: {finished.stderr.strip()}")
    return finished.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Python file, by what a mutant's position in it means."""

    ignored: tuple[tuple[Position, Position], ...]
    functions: tuple[tuple[int, int, str], ...]
    """First (decorators count) and last line of each function, and its qualified name."""

    def is_ignored(self, start: Position) -> bool:
        """True where next to nothing changes at run time.

        In annotations, ``if TYPE_CHECKING``, ``@dataclass(...)``, ``compare`` and ``repr`` of its
        fields, and ``strict`` of ``zip``, which holds what cannot be otherwise.
        """
        return any(first <= start < last for first, last in self.ignored)

    def function_at(self, line: int) -> str | None:
        """The qualified name of the innermost function around ``line``.

        None where it is run on import.
        """
        around = [(first, name) for first, last, name in self.functions if first <= line <= last]
        return max(around)[1] if around else None


def source_of(text: str) -> Source:
    tree = ast.parse(text)
    ignored = [
        ((first.lineno, first.col_offset), (last.end_lineno or 0, last.end_col_offset or 0))
        for first, last in _unnoticed(tree)
    ]
    return Source(ignored=tuple(ignored), functions=tuple(_functions(tree, "")))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Named as the interpreter names their code: ``A.f.<locals>.inner``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            yield first, child.end_lineno or child.lineno, prefix + child.name
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _functions(
                child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            )


def _unnoticed(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
    """From where to where."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation)
            ):
                yield annotation, annotation
            case ast.FunctionDef(returns=ast.expr() as returned):
                yield returned, returned
            case ast.If(test=ast.Name(id="TYPE_CHECKING") as test):
                yield node, test
            case ast.Call(func=ast.Name(id="field"), keywords=keywords):
                yield from (
                    (each.value, each.value) for each in keywords if each.arg in {"compare", "repr"}
                )
            case ast.Call(func=ast.Name(id="zip"), keywords=keywords):
                yield from ((each.value, each.value) for each in keywords if each.arg == "strict")
            case ast.ClassDef():
                yield from ((each, each) for each in node.decorator_list if _is_dataclass(each))


def _is_dataclass(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "dataclass"
