from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ortpkg.compiler.emission.executor import executor_module
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.machine_code.cpu_targets import target_named
from ortpkg.compiler.machine_code.executor_abi import (
    COUNTER_WORDS,
    LAUNCH_WORDS,
    STATUS_WORDS,
    STEP_WORDS,
    TEAM_WORDS,
    LaunchWord,
    Outcome,
    TeamWord,
)
from tests.cross.aarch64_process import (
    END_OF_MAIN,
    MEMORY,
    STACK_NBYTES,
    STACKS,
    START_THREAD,
    SYSCALL,
    THREAD_FLAGS,
    run_process,
)
from tests.machine_code.native_code import COUNT, TURN

pytestmark = pytest.mark.cross

TILES, STEPS, WORKERS = 60, 5, 3
#: Where in memory, in 64-bit words: outcomes, team, launch, steps, arguments, status and counters,
#: scratch, numbers.
TEAM, LAUNCH = 16, 32
TABLE = LAUNCH + LAUNCH_WORDS
ARGUMENTS = TABLE + STEP_WORDS * (STEPS + 1)
STATUS = ARGUMENTS + 8 * (STEPS + 1)
COUNTERS = STATUS + STATUS_WORDS
SCRATCH = COUNTERS + COUNTER_WORDS * (STEPS + 1)
NUMBERS = SCRATCH + 8 * (WORKERS + 1)
ALL = NUMBERS + TILES * (STEPS + 1)

#: Starts the workers, leads so many runs, counts their outcomes, ends the workers.
MAIN = """
define void @main() {{
entry:
  %start = inttoptr i64 {start} to ptr
  %team = inttoptr i64 {team} to ptr
  %launch = inttoptr i64 {launch} to ptr
  %status = inttoptr i64 {status} to ptr
  %outcomes = inttoptr i64 {memory} to ptr
  %kernel_of = inttoptr i64 {table} to ptr
  br label %kernels

kernels:
  %k = phi i64 [ 0, %entry ], [ %k_next, %kernels ]
  %row = getelementptr [8 x i64], ptr %kernel_of, i64 %k
  %is_last = icmp eq i64 %k, {steps}
  %kernel = select i1 %is_last, ptr @count, ptr @turn
  store ptr %kernel, ptr %row
  %k_next = add i64 %k, 1
  %more_kernels = icmp sle i64 %k_next, {steps}
  br i1 %more_kernels, label %kernels, label %threads

threads:
  %t = phi i64 [ 1, %kernels ], [ %t_next, %threads ]
  %stack_offset = mul i64 %t, {stack_nbytes}
  %stack = add i64 %stack_offset, {stacks}
  %thread = call i64 %start(i64 {flags}, i64 %stack, ptr @work, ptr %team, i64 %t)
  %t_next = add i64 %t, 1
  %more_threads = icmp sle i64 %t_next, {workers}
  br i1 %more_threads, label %threads, label %lead

lead:
  %n = phi i64 [ 0, %threads ], [ %n_next, %lead ]
  call void @llvm.memset.inline.p0.i64(ptr %status, i8 0, i64 {zeroed}, i1 false)
  store i64 {stop}, ptr %status
  %outcome = call i64 @lead(ptr %team, ptr %launch)
  %place = getelementptr i64, ptr %outcomes, i64 %outcome
  %before = load i64, ptr %place
  %after = add i64 %before, 1
  store i64 %after, ptr %place
  %n_next = add i64 %n, 1
  %more = icmp slt i64 %n_next, {runs}
  br i1 %more, label %lead, label %done

done:
  call void @dismiss(ptr %team)
  call void @end_process(i64 {nbytes})
  ret void
}}
declare void @llvm.memset.inline.p0.i64(ptr, i8, i64, i1)
"""


def address(word: int) -> int:
    return MEMORY + 8 * word


def memory(spins: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    words = np.zeros(ALL, np.int64)
    team, launch = words[TEAM : TEAM + TEAM_WORDS], words[LAUNCH : LAUNCH + LAUNCH_WORDS]
    team[TeamWord.WAIT] = team[TeamWord.WAKE] = SYSCALL
    launch[LaunchWord.WAIT] = launch[LaunchWord.WAKE] = SYSCALL
    team[TeamWord.SPINS] = launch[LaunchWord.SPINS] = spins
    launch[LaunchWord.STEP_COUNT] = STEPS + 1
    for place, word in (
        (LaunchWord.STEPS, TABLE),
        (LaunchWord.COUNTERS, COUNTERS),
        (LaunchWord.SCRATCH, SCRATCH),
        (LaunchWord.STATUS, STATUS),
    ):
        launch[place] = address(word)
    launch[LaunchWord.SCRATCH_STRIDE] = 64
    for step in range(STEPS + 1):
        arguments = ARGUMENTS + 8 * step
        # The last step counts in the first numbers; those before make each of the one before.
        before = 0 if step == STEPS else step
        words[TABLE + STEP_WORDS * step :][1:5] = (
            address(arguments),
            address(arguments + 2),
            TILES,
            4,
        )
        # The last one in waves, of three parts each.
        words[TABLE + STEP_WORDS * step + 6] = 12 if step == STEPS else 0
        words[arguments : arguments + 4] = (
            address(NUMBERS + TILES * before),
            address(NUMBERS + TILES * (step + 1)),
            7,
            TILES,
        )
    return words


def run(
    tmp_path: Path, *, runs: int, spins: int, stop: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    target = target_named("linux-aarch64")
    main = MAIN.format(
        start=START_THREAD,
        team=address(TEAM),
        launch=address(LAUNCH),
        status=address(STATUS),
        memory=MEMORY,
        table=address(TABLE),
        steps=STEPS,
        stack_nbytes=STACK_NBYTES,
        stacks=STACKS + STACK_NBYTES,
        flags=THREAD_FLAGS,
        workers=WORKERS,
        zeroed=8 * (SCRATCH - STATUS),
        stop=stop,
        runs=runs,
        nbytes=8 * ALL,
    )
    compiler = ObjectCompiler(
        triple=target.llvm_triple, cpu=target.llvm_cpu, features=target.llvm_features
    )
    text = executor_module(target) + COUNT + TURN + END_OF_MAIN + main
    # main takes addresses of functions, which an object looks up in a table unless they are its own.
    code = compiler.link(text.replace("define void", "define dso_local void"))
    after = run_process(code, memory(spins).tobytes(), tmp_path)
    return np.frombuffer(after, np.int64)


@pytest.mark.parametrize("spins", [0, 200])
def test_a_team_of_four_runs_steps_in_order_and_each_tile_once(tmp_path: Path, spins: int) -> None:
    runs = 200
    after = run(tmp_path, runs=runs, spins=spins)
    assert after[:3].tolist() == [runs, 0, 0]
    numbers = after[NUMBERS:].reshape(STEPS + 1, TILES)
    assert numbers[0].tolist() == [runs] * TILES
    assert numbers[STEPS].tolist() == [runs - 1 + STEPS] * TILES


def test_a_stop_ends_a_run(tmp_path: Path) -> None:
    after = run(tmp_path, runs=10, spins=5, stop=1)
    assert after[:3].tolist() == [10 * (each is Outcome.STOPPED) for each in Outcome]
    assert not after[NUMBERS:].any()
