"""Where the time of a compiled model goes, step by step, on one thread.

    python -m benchmarks.machine_code_steps MODEL.onnx [--runs 20] [--most 40] [--by kernel]

MODEL.npz beside it has its inputs. Each step of each partition is run by itself, in order, as often
as the model is run; printed is the least time of each, with its tiles, and what they add up to
beside the least time of whole runs. ``--by kernel`` adds up the steps that run the same kernel.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.zoo.compare import feeds_of, open_ours
from ortpkg.compiler.machine_code.executor_abi import COUNTER_WORDS, STEP_WORDS, LaunchWord, Outcome
from ortpkg.compiler.machine_code.loaded_program import LoadedProgram
from ortpkg.compiler.machine_code.program import Program

#: Words of a step: its tiles, and how many steps from it on one thread does alone.
_TILES, _GROUP = 3, 5


class StepClock:
    """Stands in for what enters compiled code, and enters it once for each step."""

    def __init__(self) -> None:
        self.least_ns: dict[tuple[int, int], int] = {}
        self.tiles: dict[tuple[int, int], int] = {}
        self.programs: dict[int, Program] = {}

    def enter(self, loaded: Any, entry: Any, launch: Any) -> int:
        """Runs the steps of a launch one by one, on this thread."""
        words = launch.view
        steps, counters = words[LaunchWord.STEPS], words[LaunchWord.COUNTERS]
        count = words[LaunchWord.STEP_COUNT]
        self.programs[id(loaded)] = loaded._program
        try:
            words[LaunchWord.STEP_COUNT] = 1
            for step in range(count):
                words[LaunchWord.STEPS] = steps + 8 * STEP_WORDS * step
                words[LaunchWord.COUNTERS] = counters + 8 * COUNTER_WORDS * step
                row = (steps - launch.address) // 8 + STEP_WORDS * step
                group, words[row + _GROUP] = words[row + _GROUP], 0
                start = time.perf_counter_ns()
                outcome = entry.run(launch.address, 0)
                taken = time.perf_counter_ns() - start
                words[row + _GROUP] = group
                if outcome != Outcome.DONE:
                    return int(outcome)
                key = (id(loaded), step)
                self.least_ns[key] = min(taken, self.least_ns.get(key, taken))
                self.tiles[key] = words[row + _TILES]
        finally:
            words[LaunchWord.STEP_COUNT] = count
            words[LaunchWord.STEPS], words[LaunchWord.COUNTERS] = steps, counters
        return int(Outcome.DONE)


def _kind_of(program: Program, step: int) -> str:
    return f"{program.steps[step].kernel} ({program.steps[step].name[:70]})"


def _print_steps(clock: StepClock, most: int) -> None:
    order = sorted(clock.least_ns, key=lambda key: -clock.least_ns[key])
    for loaded, step in order[:most]:
        program, key = clock.programs[loaded], (loaded, step)
        print(
            f"{clock.least_ns[key] / 1000:9.1f} us  {clock.tiles[key]:6} tiles  step {step:3}"
            f"  {_kind_of(program, step)}"
        )


def _print_kernels(clock: StepClock, most: int) -> None:
    groups: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for loaded, step in clock.least_ns:
        groups[loaded, clock.programs[loaded].steps[step].kernel].append((loaded, step))
    totals = {each: sum(clock.least_ns[key] for key in keys) for each, keys in groups.items()}
    for each in sorted(totals, key=lambda each: -totals[each])[:most]:
        keys = groups[each]
        print(
            f"{totals[each] / 1000:9.1f} us  {len(keys):4} steps of"
            f" {clock.tiles[keys[0]]:5} tiles  {_kind_of(clock.programs[each[0]], keys[0][1])}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--by", choices=("step", "kernel"), default="step")
    given = parser.parse_args(arguments)
    session, feeds = open_ours(given.model, 1, "llvm"), feeds_of(given.model)
    whole = []
    for _ in range(given.runs):
        start = time.perf_counter()
        session.run(None, feeds)
        whole.append(time.perf_counter() - start)
    clock, enter = StepClock(), LoadedProgram._enter

    def enter_by_steps(loaded: Any, entry: Any, _plan: Any, launch: Any) -> int:
        return clock.enter(loaded, entry, launch)

    LoadedProgram._enter = enter_by_steps  # type: ignore[assignment,method-assign]
    try:
        for _ in range(given.runs):
            session.run(None, feeds)
    finally:
        LoadedProgram._enter = enter  # type: ignore[method-assign]
    (_print_steps if given.by == "step" else _print_kernels)(clock, given.most)
    total = sum(clock.least_ns.values()) / 1e6
    print(f"{len(clock.least_ns)} steps: {total:.3f} ms; whole runs: {min(whole) * 1000:.3f} ms")


if __name__ == "__main__":
    main()
