"""``python -m tests.mutation --tool PYTHON``: mutates changed lines, says what no test noticed.

``make mutants MUTANTS="--since main --room engine --sample 60 --minutes 20 --seed 1"``. cosmic-ray
makes the mutants, in a copy of the checkout; of each, the tests that call the changed function are
run, the fast ones first. Ends with 1 where more than a tenth survives that ``explained.toml`` has
no reason for. ``--named`` tries the mutants of ``named.toml`` instead, each against its own tests,
and ends with 1 where any survives.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.lines import Source, changed_lines, source_of
from tests.mutation.named import NAMED, NamedMutant, read_named
from tests.mutation.report import (
    EXPLAINED,
    Explanation,
    Outcome,
    Result,
    is_too_much,
    outcome_of,
    read_explanations,
    summary_of,
    text_of,
)
from tests.mutation.rooms import ROOMS
from tests.mutation.sampling import Mutant, is_python, places, sample
from tests.mutation.trial import (
    Copy,
    Reach,
    ask_cosmic_ray,
    choose_tests,
    diff_of,
    in_parts,
    read_reach,
    recorded_reach,
)

CHECKOUT = Path(__file__).parents[2]
KEPT = CHECKOUT / "build" / "mutants"

_NAMED_LIMIT_S = 300.0


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.named:
        return _try_named(read_named(NAMED.read_text(encoding="utf-8")))
    explanations = read_explanations(EXPLAINED.read_text(encoding="utf-8"))
    deadline = time.monotonic() + 60 * asked.minutes
    ends = []
    with tempfile.TemporaryDirectory(
        prefix="ortpkg-mutants-", ignore_cleanup_errors=True
    ) as folder:
        copy = Copy(CHECKOUT, Path(folder))
        for room in [asked.room] if asked.room else ROOMS:
            results, count = _try_room(copy, room, asked, deadline, explanations)
            print(summary_of(room, results, count, explanations), flush=True)
            ends.append(is_too_much(results, explanations))
    return 1 if any(ends) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--tool",
        type=lambda text: Path(text).absolute(),
        required=True,
        help="the Python that has cosmic-ray (make gives it)",
    )
    parser.add_argument(
        "--named", action="store_true", help="the mutants of named.toml, and no others"
    )
    parser.add_argument(
        "--since", default="HEAD~20", help="the commit that lines are compared with"
    )
    parser.add_argument("--room", choices=sorted(ROOMS), help="only this package of ortpkg's")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room")
    parser.add_argument("--minutes", type=float, default=20.0, help="no mutant is begun later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds-of-tests", type=float, default=60.0, help="of tests for one mutant, at most"
    )
    return parser


def _try_named(named: Sequence[NamedMutant]) -> int:
    survivors = []
    with tempfile.TemporaryDirectory(
        prefix="ortpkg-mutants-", ignore_cleanup_errors=True
    ) as folder:
        copy = Copy(CHECKOUT, Path(folder))
        tests = sorted({test for mutant in named for test in mutant.tests})
        if code := copy.pytest(["-x", *tests], _NAMED_LIMIT_S):
            raise SystemExit(f"the tests do not pass without any mutant (pytest ended with {code})")
        for mutant in named:
            before = copy.text(mutant.file)
            copy.write(mutant.file, mutant.applied(before))
            code = copy.pytest(["-x", *mutant.tests], _NAMED_LIMIT_S)
            copy.write(mutant.file, before)
            outcome = outcome_of(code)
            print(f"{outcome}: {mutant.name}", flush=True)
            survivors += [mutant] if outcome is Outcome.SURVIVED else []
    print(f"named: {len(named)} tried, {len(survivors)} survived")
    return 1 if survivors else 0


def _try_room(
    copy: Copy,
    room: str,
    asked: argparse.Namespace,
    deadline: float,
    explanations: Sequence[Explanation],
) -> tuple[list[Result], int]:
    changed = changed_lines(CHECKOUT, asked.since, f"ortpkg/{room}")
    sources = {file: source_of(copy.text(file)) for file in changed}
    there_are = places(
        ask_cosmic_ray(asked.tool, copy.root, {"list": sorted(changed)}), changed, sources
    )
    chosen = sample(there_are, asked.sample, asked.seed)
    reach = _reach_of(copy, room) if chosen else []
    results: list[Result] = []
    for mutant in filter(is_python, ask_cosmic_ray(asked.tool, copy.root, {"apply": chosen})):
        if time.monotonic() > deadline:
            print(f"{room}: the time is up", flush=True)
            break
        results.append(_try(copy, mutant, sources[mutant["file"]], reach, asked.seconds_of_tests))
        print(text_of(results[-1], explanations), flush=True)
    return results, len(there_are)


def _reach_of(copy: Copy, room: str) -> list[Reach]:
    """Recorded once for each file of tests; remove the folder ``KEPT`` to record anew."""
    KEPT.mkdir(parents=True, exist_ok=True)
    reach: list[Reach] = []
    failed: list[str] = []
    for folder in ROOMS[room]:
        passed, left_out = read_reach(
            recorded_reach(copy, folder, KEPT / f"{Path(folder).name}.json")
        )
        reach += passed
        failed += left_out
    for name in failed:
        print(f"left out, since it fails without any mutant: {name}", flush=True)
    if not reach or _run(copy, [min(reach, key=lambda each: each.duration_s).test], 0.0) != 0:
        raise SystemExit(
            f"{room}: the tests do not run in a copy of the checkout without any mutant"
        )
    return reach


def _run(copy: Copy, tests: Sequence[str], duration_s: float) -> int | None:
    """The exit code of these tests and no others.

    None where they take far longer than ``duration_s``.
    """
    chosen = copy.root.parent / "chosen.json"
    chosen.write_text(json.dumps(tests), encoding="utf-8")
    files = sorted({name.partition("::")[0] for name in tests})
    return copy.pytest(
        ["-x", "-p", "tests.mutation.chosen", *files], 60 + 5 * duration_s, CHOSEN_FILE=str(chosen)
    )


def _try(
    copy: Copy, mutant: Mutant, source: Source, reach: Sequence[Reach], budget_s: float
) -> Result:
    file, line = mutant["file"], mutant["start"][0]
    tests, duration_s, reaching = choose_tests(reach, file, source.function_at(line), budget_s)
    before = copy.text(file)
    started_s = time.monotonic()
    outcome = Outcome.UNREACHED
    for part in in_parts(tests):
        copy.write(file, mutant["code"])
        try:
            outcome = outcome_of(_run(copy, part, duration_s))
        finally:
            copy.write(file, before)
        if (
            outcome is Outcome.TIMEOUT
            and outcome_of(_run(copy, part, duration_s)) is Outcome.SURVIVED
        ):
            # it hangs: without it the same tests end in time, on the same machine
            outcome = Outcome.KILLED
        if outcome is not Outcome.SURVIVED:
            break
    return Result(
        file=file,
        line=line,
        outcome=outcome,
        diff=tuple(diff_of(before, mutant["code"])),
        tests=len(tests),
        reaching=reaching,
        duration_s=time.monotonic() - started_s,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
