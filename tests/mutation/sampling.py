"""Which mutants are tried: a random sample of the places on changed lines, one mutant of each."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.mutation.lines import Source

#: Operators whose mutants nearly always mean the same: of enumerations, None and small numbers,
#: `is` and `==` agree.
_EQUAL_BY_NATURE = (
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_NotEq_IsNot",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
)

Mutant = dict[str, Any]


def places(
    mutants: Sequence[Mutant], lines: Mapping[str, Collection[int]], sources: Mapping[str, Source]
) -> list[list[Mutant]]:
    """Mutants on changed lines, in order, together if they change the same thing.

    One operator of the tool puts eleven others in the place of a `+` and one in the place of an
    `and`: a sample of mutants would be one of arithmetic.
    """
    found: dict[tuple[str, tuple[int, int], str], list[Mutant]] = {}
    for mutant in mutants:
        file, start, operator = mutant["file"], tuple(mutant["start"]), mutant["operator"]
        if (
            start[0] not in lines[file]
            or operator in _EQUAL_BY_NATURE
            or sources[file].is_ignored(start)
        ):
            continue
        found.setdefault((file, start, operator.split("_")[0]), []).append(mutant)
    return [found[key] for key in sorted(found)]


def sample(of: Sequence[list[Mutant]], count: int, seed: int) -> list[Mutant]:
    """One mutant each of ``count`` places, in random order: its beginning is a sample, too."""
    chance = random.Random(seed)
    return [chance.choice(mutants) for mutants in chance.sample(list(of), min(count, len(of)))]


def is_python(mutant: Mutant) -> bool:
    """Whether an applied mutant is Python: the tool takes a parameter's star for a product."""
    try:
        compile(mutant["code"], mutant["file"], "exec")
    except SyntaxError:
        return False
    return True
