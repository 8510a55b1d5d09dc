"""What came of the mutants: which died, which live, and which of these are explained."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from tests.mutation.chosen import TIMED_OUT

EXPLAINED = Path(__file__).parent / "explained.toml"

#: Above this share of survivors that nobody has explained, ``make mutants`` fails.
ALLOWED_SHARE = 0.1


class Outcome(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """Neither: the tests take too long without the mutant, too."""
    UNREACHED = "unreached"
    """No test of the room calls anything in the file: it lives, too."""


def outcome_of(code: int | None) -> Outcome:
    """By what pytest ended with; None where it had to be stopped."""
    if code is None or code == TIMED_OUT:
        return Outcome.TIMEOUT
    has_noticed = code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    return Outcome.KILLED if has_noticed else Outcome.SURVIVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    file: str
    line: int
    outcome: Outcome
    diff: tuple[str, ...]
    """Lines that are gone, after ``-``, and lines in their place, after ``+``."""
    tests: int
    reaching: int
    """Tests that were run, of so many that reach it."""
    duration_s: float

    @property
    def lives(self) -> bool:
        return self.outcome in {Outcome.SURVIVED, Outcome.UNREACHED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a mutant may live; found by its text, since line numbers change.

    Without lines after ``+``: any of a line.
    """

    file: str
    diff: tuple[str, ...]
    reason: str


def read_explanations(text: str) -> list[Explanation]:
    """``[[survivor]]`` tables with ``file``, ``diff`` (as the report prints it) and ``reason``."""
    explanations = []
    for number, table in enumerate(tomllib.loads(text).get("survivor", ())):
        if table.keys() != {"file", "diff", "reason"} or not all(
            str(value).strip() for value in table.values()
        ):
            raise ValueError(
                f"survivor {number}: file, diff and reason are needed, each with a text"
            )
        explanations.append(
            Explanation(
                file=table["file"],
                diff=_normal(table["diff"].splitlines()),
                reason=table["reason"].strip(),
            )
        )
    return explanations


def explanation_of(result: Result, explanations: Sequence[Explanation]) -> Explanation | None:
    diff = _normal(result.diff)
    before = tuple(line for line in diff if line.startswith("-"))
    return next(
        (each for each in explanations if each.file == result.file and each.diff in {diff, before}),
        None,
    )


def _normal(diff: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[:1] + " ".join(line[1:].split()) for line in diff if line.strip())


def text_of(result: Result, explanations: Sequence[Explanation] = ()) -> str:
    """One line, and for what lives its diff and its explanation."""
    head = (
        f"{result.outcome}: {result.file}:{result.line} ({result.tests} of {result.reaching}"
        " tests, "
    )
    head += f"{result.duration_s:.0f} s)"
    if not result.lives and result.outcome is not Outcome.TIMEOUT:
        return head
    explanation = explanation_of(result, explanations) if result.lives else None
    notes = [f"explained: {explanation.reason}"] if explanation else []
    return "\n    ".join([head, *result.diff, *notes])


def summary_of(
    room: str, results: Sequence[Result], sites: int, explanations: Sequence[Explanation]
) -> str:
    counts = Counter(result.outcome for result in results)
    living = [result for result in results if result.lives]
    explained = sum(explanation_of(result, explanations) is not None for result in living)
    told = len(results) - counts[Outcome.TIMEOUT]
    share = len(living) / told if told else 0.0
    return (
        f"{room}: {len(results)} tried of {sites} places on changed lines: {counts[Outcome.KILLED]}"
        f" killed, {counts[Outcome.TIMEOUT]} timed out, {len(living)} survived ({share:.0%}; no"
        f" test reaches {counts[Outcome.UNREACHED]}), {explained} of these explained"
    )


def is_too_much(results: Sequence[Result], explanations: Sequence[Explanation]) -> bool:
    told = [result for result in results if result.outcome is not Outcome.TIMEOUT]
    unexplained = sum(
        result.lives and explanation_of(result, explanations) is None for result in told
    )
    return unexplained > ALLOWED_SHARE * len(told)
