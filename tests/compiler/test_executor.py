from __future__ import annotations

import ctypes
import itertools
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.emission.executor import executor_module
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.machine_code.cpu_targets import TARGETS, CpuTarget, target_named
from ortpkg.compiler.machine_code.executable_memory import map_code
from ortpkg.compiler.machine_code.executor_abi import (
    COUNTER_WORDS,
    EXECUTOR_FUNCTIONS,
    LAUNCH_WORDS,
    STATUS_WORDS,
    STEP_WORDS,
    TEAM_WORDS,
    LaunchWord,
    Outcome,
    TeamWord,
)
from ortpkg.compiler.machine_code.system_waiting import wait_functions
from tests.machine_code.native_code import (
    COUNT,
    FAIL,
    FOLLOW,
    NOTE_TURN,
    SLOW,
    TURN,
    NativeCode,
    Words,
    address_of,
    native_code,
    this_target,
)

THREADS = 4


@pytest.fixture(scope="module")
def code() -> NativeCode:
    return native_code(COUNT, TURN, SLOW, FAIL, FOLLOW, NOTE_TURN)


@dataclass
class Launch:
    """The memory of a launch, filled in by hand."""

    words: Words = field(default_factory=lambda: np.zeros(LAUNCH_WORDS, np.int64))
    steps: list[Words] = field(default_factory=list)
    kept: list[npt.NDArray[Any]] = field(default_factory=list)
    status: Words = field(default_factory=lambda: np.zeros(STATUS_WORDS, np.int64))

    def step(
        self,
        kernel: int,
        tiles: int,
        buffers: Sequence[npt.NDArray[Any]] = (),
        sizes: Sequence[int] = (),
        chunk: int = 1,
        group: int = 0,
        wave: int = 0,
    ) -> Launch:
        addresses = np.array([address_of(each) for each in buffers] or [0], np.int64)
        numbers = np.array(list(sizes) or [0], np.int64)
        self.kept += [addresses, numbers, *buffers]
        row = [kernel, address_of(addresses), address_of(numbers), tiles, chunk, group, wave]
        self.steps.append(np.array(row + [0] * (STEP_WORDS - len(row)), np.int64))
        return self

    def ready(self, *, spins: int = 100, sleeps: bool = True) -> int:
        steps = np.concatenate(self.steps) if self.steps else np.zeros(1, np.int64)
        counters = np.zeros(COUNTER_WORDS * max(len(self.steps), 1), np.int64)
        scratch = np.zeros(64 * 16, np.uint8)
        self.kept += [steps, counters, scratch]
        wait, wake = wait_functions() if sleeps else (0, 0)
        for word, value in (
            (LaunchWord.STEP_COUNT, len(self.steps)),
            (LaunchWord.STEPS, address_of(steps)),
            (LaunchWord.COUNTERS, address_of(counters)),
            (LaunchWord.SCRATCH, address_of(scratch)),
            (LaunchWord.SCRATCH_STRIDE, 64),
            (LaunchWord.STATUS, address_of(self.status)),
            (LaunchWord.WAIT, wait),
            (LaunchWord.WAKE, wake),
            (LaunchWord.SPINS, spins),
            (LaunchWord.WAKES, 1),
        ):
            self.words[word] = value
        return address_of(self.words)


def await_helpers(launch: int) -> None:
    """Until the last worker has left a launch, whose memory may go from then on."""
    helpers = ctypes.c_int64.from_address(launch + 8 * LaunchWord.HELPERS)
    while helpers.value:
        time.sleep(0)


class Team:
    """Worker threads, each inside of ``work``."""

    def __init__(self, code: NativeCode, workers: int, *, spins: int = 100) -> None:
        self.code = code
        self.words = np.zeros(TEAM_WORDS, np.int64)
        wait, wake = wait_functions()
        self.words[TeamWord.WAIT], self.words[TeamWord.WAKE] = wait, wake
        self.words[TeamWord.SPINS] = spins
        self.threads = [
            threading.Thread(target=code.call, args=("work", address_of(self.words), number + 1))
            for number in range(workers)
        ]

    def __enter__(self) -> Team:
        for thread in self.threads:
            thread.start()
        return self

    def lead(self, launch: int) -> int:
        outcome = self.code.call("lead", address_of(self.words), launch)
        await_helpers(launch)
        return outcome

    def __exit__(self, *_: object) -> None:
        self.code.call("dismiss", address_of(self.words))
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(60)
                assert not thread.is_alive()


def run_in_threads(code: NativeCode, launch: int, threads: int = THREADS) -> list[int]:
    """What each thread's ``run`` returned."""
    outcomes: list[int] = []
    others = [
        threading.Thread(target=lambda n=n: outcomes.append(code.call("run", launch, n)))
        for n in range(1, threads)
    ]
    for each in others:
        each.start()
    outcomes.append(code.call("run", launch, 0))
    for each in others:
        each.join(60)
    return outcomes


@pytest.mark.parametrize("tiles", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("chunk", [1, 3, 5000])
def test_every_tile_is_computed_once(code: NativeCode, tiles: int, chunk: int) -> None:
    numbers = np.zeros(max(tiles, 1), np.int64)
    launch = Launch().step(code.address("count"), tiles, [numbers], chunk=chunk)
    assert run_in_threads(code, launch.ready()) == [Outcome.DONE] * THREADS
    assert numbers[:tiles].tolist() == [1] * tiles


@pytest.mark.parametrize(
    ("thread", "turns"), [(0, [1, 2, 3]), (1, [3, 2, 1]), (2, [1, 2, 3]), (3, [3, 2, 1])]
)
def test_threads_of_odd_numbers_take_the_last_tiles_first(
    code: NativeCode, thread: int, turns: list[int]
) -> None:
    found, calls = np.zeros(8, np.int64), np.zeros(1, np.int64)
    launch = Launch().step(code.address("note_turn"), 8, [found, calls], chunk=3)
    assert code.call("run", launch.ready(), thread) == Outcome.DONE
    assert found[::3].tolist() == turns
    assert found.sum() == sum(turns), "chunks begin at every third tile"


def test_a_program_without_steps_is_done(code: NativeCode) -> None:
    assert code.call("run", Launch().ready(), 0) == Outcome.DONE


def test_a_step_begins_when_all_tiles_before_are_done(code: NativeCode) -> None:
    count = 600
    numbers = [np.zeros(count, np.int64) for _ in range(41)]
    launch = Launch()
    for before, after in itertools.pairwise(numbers):
        launch.step(code.address("turn"), count, [before, after], [7, count], chunk=5)
    assert run_in_threads(code, launch.ready(spins=3)) == [Outcome.DONE] * THREADS
    assert numbers[-1].tolist() == [40] * count


def test_nobody_waits_for_a_thread_that_never_comes(code: NativeCode) -> None:
    numbers = np.zeros(50, np.int64)
    launch = Launch()
    for _ in range(3):
        launch.step(code.address("count"), 50, [numbers])
    assert code.call("run", launch.ready(), 3) == Outcome.DONE  # alone, as any thread of a team
    assert numbers.tolist() == [3] * 50


@pytest.mark.parametrize("spins", [0, 1000])
def test_the_steps_of_a_group_are_done_by_one_thread_in_their_order(
    code: NativeCode, spins: int
) -> None:
    count = 20
    chosen = random.Random(5)
    for _ in range(60):
        numbers = [np.zeros(count, np.int64) for _ in range(25)]
        launch, step = Launch(), 0
        while step < 24:
            group = min(chosen.randrange(5), 24 - step)
            for place in range(max(group, 1)):
                pair = numbers[step : step + 2]
                launch.step(code.address("turn"), count, pair, [3, count], 2, 0 if place else group)
                step += 1
        assert run_in_threads(code, launch.ready(spins=spins)) == [Outcome.DONE] * THREADS
        assert numbers[-1].tolist() == [24] * count


@pytest.mark.parametrize("threads", [1, THREADS])
def test_a_failed_access_in_a_group_ends_the_run_everywhere(code: NativeCode, threads: int) -> None:
    after = np.zeros(4, np.int64)
    launch = (
        Launch()
        .step(code.address("count"), 4, [np.zeros(4, np.int64)], group=3)
        .step(code.address("fail"), 8, sizes=[7])
        .step(code.address("count"), 4, [after])
    )
    assert run_in_threads(code, launch.ready(), threads) == [Outcome.OUT_OF_BOUNDS] * threads
    assert after.tolist() == [0] * 4


def test_workers_that_sleep_are_left_asleep_where_the_launch_says_so(code: NativeCode) -> None:
    numbers = np.zeros(64, np.int64)
    with Team(code, 2, spins=0) as team:
        while team.words[TeamWord.SLEEPERS] < 2:
            time.sleep(0.01)
        for _ in range(20):
            launch = Launch().step(code.address("count"), 64, [numbers])
            address = launch.ready()
            launch.words[LaunchWord.WAKES] = 0
            assert team.lead(address) == Outcome.DONE
            assert team.words[TeamWord.SLEEPERS] == 2
    assert numbers.tolist() == [20] * 64


def test_a_run_ends_while_a_worker_is_still_about_to_leave_it(code: NativeCode) -> None:
    numbers = np.zeros(8, np.int64)
    with Team(code, 0) as team:
        launch = Launch().step(code.address("count"), 8, [numbers])
        address = launch.ready()
        launch.words[LaunchWord.HELPERS] = 1  # one that the system has not scheduled since
        assert code.call("lead", address_of(team.words), address) == Outcome.DONE
    assert numbers.tolist() == [1] * 8


@pytest.mark.parametrize("spins", [0, 1_000_000_000])
def test_after_a_stop_no_thread_begins_another_tile(code: NativeCode, spins: int) -> None:
    launch = Launch().step(code.address("slow"), 1_000_000).step(code.address("slow"), 1)
    address = launch.ready(spins=spins)
    counters = launch.kept[-2]
    taken: list[int] = []

    def stop() -> None:
        while counters[0] < 20:  # tiles of a millisecond
            time.sleep(0.01)
        launch.status[0] = 1
        taken.append(int(counters[0]))

    stopper = threading.Thread(target=stop)
    stopper.start()
    outcomes = run_in_threads(code, address)
    stopper.join()
    assert outcomes == [Outcome.STOPPED] * THREADS
    # Each may have looked at the status just before it was written, and taken a tile just after.
    assert counters[0] <= taken[0] + THREADS


def test_a_stop_reaches_threads_that_sleep_at_a_barrier(code: NativeCode) -> None:
    launch = Launch().step(code.address("slow"), 1, chunk=1).step(code.address("slow"), 1)
    address = launch.ready(spins=0)
    launch.kept[-2][0] = 1  # its only tile was taken by a thread that never finishes
    waiting = threading.Thread(target=lambda: outcome.append(code.call("run", address, 1)))
    outcome: list[int] = []
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    launch.status[0] = 1
    waiting.join(60)
    assert outcome == [Outcome.STOPPED]


@pytest.mark.parametrize("threads", [1, THREADS])
def test_a_failed_access_ends_the_run_everywhere(code: NativeCode, threads: int) -> None:
    after = np.zeros(4, np.int64)
    launch = (
        Launch()
        .step(code.address("fail"), 1000, sizes=[500])
        .step(code.address("count"), 4, [after])
    )
    assert run_in_threads(code, launch.ready(), threads) == [Outcome.OUT_OF_BOUNDS] * threads
    assert launch.status[1] == 5
    assert after.tolist() == [0] * 4


def test_a_failed_access_in_the_last_tile_is_told(code: NativeCode) -> None:
    launch = Launch().step(code.address("fail"), 8, sizes=[7])
    assert code.call("run", launch.ready(), 0) == Outcome.OUT_OF_BOUNDS


def test_without_functions_of_the_system_threads_spin(code: NativeCode) -> None:
    numbers = np.zeros(64, np.int64)
    launch = Launch()
    for _ in range(5):
        launch.step(code.address("count"), 64, [numbers])
    assert run_in_threads(code, launch.ready(spins=0, sleeps=False)) == [Outcome.DONE] * THREADS
    assert numbers.tolist() == [5] * 64


@pytest.mark.parametrize("spins", [0, 1000])
def test_a_team_runs_thousands_of_random_programs(code: NativeCode, spins: int) -> None:
    chosen = random.Random(18)
    with Team(code, THREADS - 1, spins=spins) as team:
        for _ in range(1500):
            count = chosen.randrange(1, 40)
            numbers = [np.zeros(count, np.int64) for _ in range(chosen.randrange(1, 6))]
            launch = Launch()
            for before, after in itertools.pairwise(numbers):
                launch.step(
                    code.address("turn"), count, [before, after], [3, count], chosen.randrange(1, 5)
                )
            launch.step(code.address("count"), count, [numbers[-1]], chunk=chosen.randrange(1, 9))
            assert team.lead(launch.ready(spins=spins)) == Outcome.DONE
            assert numbers[-1].tolist() == [len(numbers)] * count
            while team.words[TeamWord.INSIDE]:
                time.sleep(0)  # one that looks whether there is something to do


@pytest.mark.parametrize("spins", [0, 1000])
def test_no_tile_of_a_wave_begins_before_the_wave_before_has_ended(
    code: NativeCode, spins: int
) -> None:
    """Each tile adds 1 to what a tile of the wave before wrote, of which no other order is right."""
    chosen = random.Random(180)
    with Team(code, THREADS - 1, spins=spins) as team:
        for _ in range(300):
            wave, waves = chosen.randrange(1, 25), chosen.randrange(0, 60)
            numbers, after = np.full(wave * (waves + 1), -1, np.int64), np.zeros(wave, np.int64)
            numbers[:wave] = 0
            chunk = max(chosen.randrange(1, wave + 1), -(-wave // 32))
            launch = (
                Launch()
                .step(code.address("follow"), wave * waves, [numbers], [wave], chunk, wave=wave)
                .step(code.address("turn"), wave, [numbers[wave * waves :], after], [1, wave])
            )
            assert team.lead(launch.ready(spins=spins)) == Outcome.DONE
            assert numbers.tolist() == np.repeat(np.arange(waves + 1), wave).tolist()
            assert after.tolist() == [waves + 1] * wave
            while team.words[TeamWord.INSIDE]:
                time.sleep(0)  # one that looks whether there is something to do


def test_waves_whose_worker_never_comes_are_done_by_the_one_that_came(code: NativeCode) -> None:
    numbers = np.zeros(8 * 101, np.int64)
    launch = Launch().step(code.address("follow"), 800, [numbers], [8], 4, wave=8)
    assert code.call("run", launch.ready(), 0) == Outcome.DONE
    assert numbers.tolist() == np.repeat(np.arange(101), 8).tolist()


def test_waves_stop_between_their_parts(code: NativeCode) -> None:
    with Team(code, 2) as team:
        endless = Launch().step(code.address("slow"), 1_000_000, chunk=2, wave=4)
        threading.Timer(0.02, lambda: endless.status.__setitem__(0, 1)).start()
        assert team.lead(endless.ready()) == Outcome.STOPPED


def test_a_stopped_run_leaves_the_team_ready_for_the_next(code: NativeCode) -> None:
    numbers = np.zeros(100, np.int64)
    with Team(code, 2) as team:
        for turn in range(5):
            endless = Launch().step(code.address("slow"), 1_000_000)
            threading.Timer(0.02, lambda each=endless: each.status.__setitem__(0, 1)).start()
            assert team.lead(endless.ready()) == Outcome.STOPPED
            ready = Launch().step(code.address("count"), 100, [numbers])
            assert team.lead(ready.ready()) == Outcome.DONE
            assert numbers.tolist() == [turn + 1] * 100


def test_workers_that_come_late_take_part_in_later_runs(code: NativeCode) -> None:
    team = Team(code, 2)
    numbers = np.zeros(30, np.int64)
    assert team.lead(Launch().step(code.address("count"), 30, [numbers]).ready()) == Outcome.DONE
    with team:
        for _ in range(20):
            launch = Launch().step(code.address("count"), 30, [numbers])
            assert team.lead(launch.ready()) == Outcome.DONE
    assert numbers.tolist() == [21] * 30


def test_runs_of_eight_python_threads_go_side_by_side(code: NativeCode) -> None:
    sums: dict[int, int] = {}

    def session(number: int) -> None:
        numbers = np.zeros(200, np.int64)
        with Team(code, 1, spins=0) as team:
            for _ in range(50):
                launch = Launch().step(code.address("count"), 200, [numbers], chunk=4)
                assert team.lead(launch.ready(spins=0)) == Outcome.DONE
        sums[number] = int(numbers.sum())

    sessions = [threading.Thread(target=session, args=(number,)) for number in range(8)]
    for each in sessions:
        each.start()
    for each in sessions:
        each.join(120)
    assert sums == dict.fromkeys(range(8), 50 * 200)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_it_links_for_every_target_with_nothing_from_outside(target: CpuTarget) -> None:
    compiler = ObjectCompiler(
        triple=target.llvm_triple, cpu=target.llvm_cpu, features=target.llvm_features
    )
    linked = compiler.link(executor_module(target, attributes="noredzone"))
    assert set(linked.functions) == set(EXECUTOR_FUNCTIONS)
    assert len(linked.data) < 8192


#: What Windows has, as functions of its calling convention that write down how they are called;
#: and the executor's functions, to be called as this system calls.
_LIKE_WINDOWS = """
define internal win64cc i32 @WaitOnAddress(ptr %word, ptr %compared, i64 %nbytes, i32 %ms) {{
  %seen = inttoptr i64 {seen} to ptr
  %calls = atomicrmw add ptr %seen, i64 1 seq_cst, align 8
  %nbytes_at = getelementptr i64, ptr %seen, i64 1
  store i64 %nbytes, ptr %nbytes_at
  %ms_at = getelementptr i64, ptr %seen, i64 2
  %ms_wide = zext i32 %ms to i64
  store i64 %ms_wide, ptr %ms_at
  %value = load i32, ptr %compared
  %now = load atomic i32, ptr %word seq_cst, align 4
  ret i32 1
}}
define internal win64cc void @WakeByAddressAll(ptr %word) {{
  %seen = inttoptr i64 {seen} to ptr
  %wakes_at = getelementptr i64, ptr %seen, i64 3
  %wakes = atomicrmw add ptr %wakes_at, i64 1 seq_cst, align 8
  ret void
}}
define void @functions(ptr %addresses) {{
  store ptr @WaitOnAddress, ptr %addresses
  %wake_at = getelementptr ptr, ptr %addresses, i64 1
  store ptr @WakeByAddressAll, ptr %wake_at
  %count_at = getelementptr ptr, ptr %addresses, i64 2
  store ptr @count_like_windows, ptr %count_at
  ret void
}}
define internal win64cc void @count_like_windows(
    ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status) {{
  call void @count(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status)
  ret void
}}
define i64 @enter_lead(ptr %team, ptr %launch) {{
  %outcome = call win64cc i64 @lead(ptr %team, ptr %launch)
  ret i64 %outcome
}}
define i64 @enter_work(ptr %team, i64 %thread) {{
  call win64cc void @work(ptr %team, i64 %thread)
  ret i64 0
}}
define i64 @enter_dismiss(ptr %team) {{
  call win64cc void @dismiss(ptr %team)
  ret i64 0
}}
"""


@pytest.mark.skipif(this_target().family != "x86_64", reason="calls as Windows does on x86-64")
def test_the_code_for_windows_runs_where_its_system_is_stood_in_for() -> None:
    target = target_named("windows-x86_64_v3")
    seen, addresses, team = (
        np.zeros(8, np.int64),
        np.zeros(3, np.int64),
        np.zeros(TEAM_WORDS, np.int64),
    )
    compiler = ObjectCompiler(triple=target.llvm_triple, cpu="x86-64-v2")
    text = executor_module(target) + COUNT + _LIKE_WINDOWS.format(seen=address_of(seen))
    linked = compiler.link(text.replace("define void", "define dso_local void"))
    code = NativeCode(data=linked.data, functions=linked.functions, mapped=map_code(linked.data))
    code.call("functions", address_of(addresses))
    team[TeamWord.WAIT], team[TeamWord.WAKE], count = addresses.tolist()
    workers = [
        threading.Thread(target=code.call, args=("enter_work", address_of(team), number))
        for number in (1, 2)
    ]
    for each in workers:
        each.start()
    numbers, runs = np.zeros(50, np.int64), 0
    # Waits return at once, so that a worker sleeps now and then alone: until one was woken.
    while runs < 100 or (runs < 1_000_000 and not seen[3]):
        runs += 1
        launch = Launch().step(count, 50, [numbers]).step(count, 50, [numbers], chunk=9)
        words = launch.ready(spins=0)
        launch.words[LaunchWord.WAIT], launch.words[LaunchWord.WAKE] = addresses[:2]
        assert code.call("enter_lead", address_of(team), words) == Outcome.DONE
        await_helpers(words)
    code.call("enter_dismiss", address_of(team))
    for each in workers:
        each.join(60)
        assert not each.is_alive()
    assert numbers.tolist() == [2 * runs] * 50
    calls, nbytes, duration_ms, wakes = seen[:4].tolist()
    assert calls > 0
    assert wakes > 0
    assert (nbytes, duration_ms) in {(4, 20), (4, 10_000)}


def test_windows_functions_take_their_parameters_as_windows_does() -> None:
    target = target_named("windows-x86_64_v3")
    compiler = ObjectCompiler(triple=target.llvm_triple, cpu=target.llvm_cpu)
    assembly = compiler.assembly(executor_module(target))
    dismiss = assembly.partition("\ndismiss:")[2].partition("retq")[0]
    assert "24(%rcx)" in dismiss  # the first parameter is in rcx, not in rdi
