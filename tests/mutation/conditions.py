"""``python -m tests.mutation.conditions FILE... --tests PATH...``: drops conditions one at a time.

Prints each change that no test notices, and a table of the files. cosmic-ray turns conditions
round; here one of them goes while the others of the same ``and`` stay, which is what a missing pair
that must *not* fuse looks like. Tests are collected once. Each mutant is a fork in which the
changed function gets new code, and which runs the tests that call this function, fast ones first:
some 2,000 mutants take half an hour.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutation.condition_trials import ConditionTrials, Trial
from tests.mutation.lines import source_of
from tests.mutation.report import EXPLAINED, Outcome, Result, explanation_of, read_explanations
from tests.mutation.trial import diff_of

_BORDERS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionMutant:
    """A file's text with one condition changed."""

    line: int
    code: str


def main(arguments: Sequence[str]) -> int:
    """Try all conditions of the files; return 1 if a mutant lives that is not explained."""
    asked = _parser().parse_args(arguments)
    texts = {file: Path(file).read_text(encoding="utf-8") for file in asked.files}
    trials = [
        Trial(
            file=file,
            line=mutant.line,
            function=source_of(text).function_at(mutant.line) or "",
            code=mutant.code,
        )
        for file, text in texts.items()
        for mutant in condition_mutants(text)
    ]
    plugin = ConditionTrials(trials, workers=asked.workers)
    options = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:terminal"]
    if code := pytest.main([*options, *asked.tests], plugins=[plugin]):
        raise SystemExit(f"the tests are not collected (pytest ended with {code})")
    explanations = read_explanations(EXPLAINED.read_text(encoding="utf-8"))
    results = [
        Result(
            file=trial.file,
            line=trial.line,
            outcome=plugin.outcomes.get(number, Outcome.UNREACHED),
            diff=tuple(diff_of(texts[trial.file], trial.code)),
            tests=0,
            reaching=0,
            duration_s=0.0,
        )
        for number, trial in enumerate(trials)
    ]
    left = [
        result
        for result in results
        if result.lives and explanation_of(result, explanations) is None
    ]
    for result in left:
        print("\n".join([f"{result.outcome}: {result.file}:{result.line}", *result.diff]))
    for file in texts:
        print(_row(file, results, left))
    return 1 if left else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.mutation.conditions")
    parser.add_argument("files", nargs="+", help="files whose conditions are changed")
    parser.add_argument("--tests", nargs="+", required=True, help="files or folders of tests")
    parser.add_argument("--workers", type=int, default=2)
    return parser


def _row(file: str, results: Sequence[Result], left: Sequence[Result]) -> str:
    own = [result for result in results if result.file == file]
    killed = sum(not result.lives for result in own)
    count = sum(result.file == file for result in left)
    return f"{file}: {len(own)} changes, {killed} noticed, {len(own) - killed - count} explained, {count} left"


def condition_mutants(text: str) -> Iterator[ConditionMutant]:
    """Yield mutants of a file's conditions, in the order of its lines."""
    changed_texts = {
        _replaced(text, node, words): node.lineno for node, words in _changes(ast.parse(text))
    }
    changed_texts.pop(text, None)
    for code, line in sorted(changed_texts.items(), key=lambda pair: pair[1]):
        yield ConditionMutant(line=line, code=code)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(tree):
        for condition in _conditions(node):
            yield from _drops(condition, ("True", "False"))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            border = _BORDERS.get(type(node.ops[0]))
            if border is not None:
                left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
                yield node, f"{left} {border} {right}"


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield expressions that a node asks whether they are true."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test
        case ast.comprehension(ifs=tests):
            yield from tests
        case ast.match_case(guard=ast.expr() as guard):
            yield guard
        case ast.FunctionDef(returns=ast.Name(id="bool")):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield inner.value
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.startswith(
            ("is_", "has_", "are_", "fits")
        ):
            yield value
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp(elt=element)]):
            yield element
        case ast.BoolOp():
            yield node


def _drops(condition: ast.expr, words: tuple[str, ...]) -> Iterator[tuple[ast.expr, str]]:
    """Yield parts of a condition and the words that make each of them unasked."""
    match condition:
        case ast.BoolOp(op=op, values=values):
            neutral = "True" if isinstance(op, ast.And) else "False"
            for value in values:
                yield from _drops(value, (neutral,))
                if isinstance(value, ast.BoolOp):
                    yield value, neutral
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            turned = tuple({"True": "False", "False": "True"}[word] for word in words)
            yield from _drops(operand, turned)
        case ast.Constant():
            return
        case _:
            for word in words:
                yield condition, word


def _replaced(text: str, node: ast.expr, words: str) -> str:
    """Return the text with other words for a node, which still binds the names it binds."""
    if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
        words = f"(({ast.unparse(node)}), {words})[1]"
    lines = text.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[first][: node.col_offset]
    tail = lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], head, words.encode(), tail, *lines[last + 1 :]]).decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
