"""Emits the executor: the functions by which threads run the steps of a program together.

It is LLVM IR written by hand and part of all compiled code, so that a thread enters compiled code
once per run and needs no Python lock inside. :mod:`ortpkg.compiler.machine_code.executor_abi`
describes its calls.

Threads take tiles of a step with an atomic addition until none is left. A thread that finds none
waits until all tiles taken by others are done: it spins for a bounded time, then sleeps on the
system's futex. So no thread waits for one that has not begun, and a worker that the system does not
schedule costs nothing. Threads with odd numbers take the last tiles first: of two equally fast
threads, each then gets the same half of every step and finds in its core's cache the data that it
wrote in the step before. Steps that are not worth sharing form *groups*: the first thread to arrive
does the whole group, without a barrier inside. Steps whose tiles come in waves are described in
:mod:`ortpkg.compiler.emission.executor_waves`.

A run has ended when all tiles of its last step are done. A worker without a tile may still be
inside the run and need not be waited for; only the words of the launch must outlast it.
:mod:`ortpkg.compiler.emission.executor_team` describes how workers join and leave a run.
"""

from __future__ import annotations

from string import Template

from ortpkg.compiler.emission.executor_team import TEAM_FUNCTIONS
from ortpkg.compiler.emission.executor_waiting import waiting_functions
from ortpkg.compiler.emission.executor_waves import WAVE_FUNCTIONS
from ortpkg.compiler.machine_code.cpu_targets import CpuTarget

#: Sleep between two checks of a thread: in a run, whether the run must end; between runs, for which
#: workers are woken, rarely.
_MOMENT_NS = 20_000_000
_LONG_NS = 10_000_000_000

#: Instructions that load the words of a step, at ``%words``.
_STEP_WORDS = """\
  %kernel = load ptr, ptr %words
  %buffers_at = getelementptr i64, ptr %words, i64 1
  %buffers = load ptr, ptr %buffers_at
  %sizes_at = getelementptr i64, ptr %words, i64 2
  %sizes = load ptr, ptr %sizes_at
  %tiles_at = getelementptr i64, ptr %words, i64 3
  %tiles = load i64, ptr %tiles_at
  %chunk_at = getelementptr i64, ptr %words, i64 4
  %chunk = load i64, ptr %chunk_at"""
_RUN = """
define ${cc}i64 @run(ptr %launch, i64 %thread) $attributes {
entry:
  %count = load i64, ptr %launch
  %steps_at = getelementptr i64, ptr %launch, i64 1
  %steps = load ptr, ptr %steps_at
  %counters_at = getelementptr i64, ptr %launch, i64 2
  %counters = load ptr, ptr %counters_at
  %all_scratch_at = getelementptr i64, ptr %launch, i64 3
  %all_scratch = load ptr, ptr %all_scratch_at
  %stride_at = getelementptr i64, ptr %launch, i64 4
  %stride = load i64, ptr %stride_at
  %status_at = getelementptr i64, ptr %launch, i64 5
  %status = load ptr, ptr %status_at
  %wait_at = getelementptr i64, ptr %launch, i64 6
  %wait = load ptr, ptr %wait_at
  %wake_at = getelementptr i64, ptr %launch, i64 7
  %wake = load ptr, ptr %wake_at
  %spins_at = getelementptr i64, ptr %launch, i64 8
  %spins = load i64, ptr %spins_at
  %scratch_offset = mul i64 %thread, %stride
  %scratch = getelementptr i8, ptr %all_scratch, i64 %scratch_offset
  %is_worker = icmp ne i64 %thread, 0
  %side = and i64 %thread, 1
  %takes_last = icmp ne i64 %side, 0
  br label %next_step

next_step:
  %step = phi i64 [ 0, %entry ], [ %following, %step_done ]
  %more_steps = icmp slt i64 %step, %count
  br i1 %more_steps, label %begin_step, label %finished

begin_step:
  %words = getelementptr [8 x i64], ptr %steps, i64 %step
$step_words
  %begun = getelementptr [8 x i64], ptr %counters, i64 %step
  %done_tiles = getelementptr i64, ptr %begun, i64 1
  %waiters = getelementptr i64, ptr %begun, i64 2
  %grouped_at = getelementptr i64, ptr %words, i64 5
  %grouped = load i64, ptr %grouped_at
  %is_group = icmp ne i64 %grouped, 0
  %step_count = call i64 @llvm.smax.i64(i64 %grouped, i64 1)
  %following = add i64 %step, %step_count
  %is_last_step = icmp sge i64 %following, %count
  ; A group is one tile, to whoever does not do it.
  %awaited = select i1 %is_group, i64 1, i64 %tiles
  %wave_at = getelementptr i64, ptr %words, i64 6
  %wave = load i64, ptr %wave_at
  %is_ordered = icmp ne i64 %wave, 0
  br i1 %is_group, label %take_group, label %share

share:
  ; How many tiles were taken from the front and from the end: together never more than there are.
  %sides = getelementptr i64, ptr %begun, i64 3
  %begun_on_side = getelementptr i64, ptr %sides, i64 %side
  %last_tile = sub i64 %tiles, 1
  %in_last_chunk = urem i64 %last_tile, %chunk
  %last_chunk = sub i64 %last_tile, %in_last_chunk
  br i1 %is_ordered, label %take_waves, label %take

take_waves:
  %is_cut_short = call ${cc}i1 @executor.waves(
      ptr %words, ptr %begun, i64 %thread, ptr %scratch, ptr %launch)
  br i1 %is_cut_short, label %leave, label %step_done

take_group:
  %takers = atomicrmw add ptr %begun, i64 1 monotonic, align 8
  %is_ours = icmp eq i64 %takers, 0
  br i1 %is_ours, label %compute_group, label %await

compute_group:
  %is_stopped = call ${cc}i1 @executor.group(ptr %words, i64 %grouped, ptr %scratch, ptr %status)
  br i1 %is_stopped, label %leave, label %add_mine

take:
  %mine = phi i64 [ 0, %share ], [ %mine_now, %compute ]
  %stop = call i1 @executor.is_stopped(ptr %status)
  br i1 %stop, label %leave, label %take_chunk

take_chunk:
  %begun_by_all = atomicrmw add ptr %begun, i64 %chunk monotonic, align 8
  %some = icmp slt i64 %begun_by_all, %tiles
  br i1 %some, label %compute, label %report

compute:
  %place = atomicrmw add ptr %begun_on_side, i64 %chunk monotonic, align 8
  %from_last = sub i64 %last_chunk, %place
  %first = select i1 %takes_last, i64 %from_last, i64 %place
  %wished = add i64 %first, %chunk
  %end = call i64 @llvm.smin.i64(i64 %wished, i64 %tiles)
  call ${cc}void %kernel(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status)
  %taken = sub i64 %end, %first
  %mine_now = add i64 %mine, %taken
  br label %take

report:
  %none_mine = icmp eq i64 %mine, 0
  br i1 %none_mine, label %await, label %add_mine

add_mine:
  %done_by_us = phi i64 [ 1, %compute_group ], [ %mine, %report ]
  %before = atomicrmw add ptr %done_tiles, i64 %done_by_us seq_cst, align 8
  %after = add i64 %before, %done_by_us
  %all_done = icmp eq i64 %after, %awaited
  br i1 %all_done, label %wake_others, label %await

wake_others:
  %sleeping = load atomic i32, ptr %waiters seq_cst, align 4
  %nobody = icmp eq i32 %sleeping, 0
  br i1 %nobody, label %step_done, label %wake_them

wake_them:
  call void @executor.awake(ptr %wake, ptr %done_tiles)
  br label %step_done

await:
  ; What comes after the last step is for thread 0 alone to wait for.
  %needs_no_more = and i1 %is_worker, %is_last_step
  br i1 %needs_no_more, label %finished, label %spin

spin:
  %spun = phi i64 [ 0, %await ], [ %spun_more, %pause ], [ %spins, %slept ]
  %done = load atomic i64, ptr %done_tiles acquire, align 8
  %is_done = icmp eq i64 %done, %awaited
  br i1 %is_done, label %step_done, label %look

look:
  %stop_waiting = call i1 @executor.is_stopped(ptr %status)
  br i1 %stop_waiting, label %leave, label %spin_or_sleep

spin_or_sleep:
  %may_spin = icmp slt i64 %spun, %spins
  br i1 %may_spin, label %pause, label %sleep

pause:
  %spun_more = add i64 %spun, 1
  call void @executor.pause()
  br label %spin

sleep:
  %others = atomicrmw add ptr %waiters, i32 1 seq_cst, align 4
  %seen = load atomic i64, ptr %done_tiles seq_cst, align 8
  %done_by_now = icmp eq i64 %seen, %awaited
  br i1 %done_by_now, label %slept, label %sleep_on

sleep_on:
  %low = trunc i64 %seen to i32
  call void @executor.sleep(ptr %wait, ptr %done_tiles, i32 %low, i64 $moment_ns)
  br label %slept

slept:
  %one_less = atomicrmw sub ptr %waiters, i32 1 seq_cst, align 4
  br label %spin

step_done:
  br label %next_step

finished:
  %failure_at = getelementptr i64, ptr %status, i64 1
  %failure = load atomic i64, ptr %failure_at monotonic, align 8
  %has_failed = icmp ne i64 %failure, 0
  ; A kernel may have stopped inside of the last step.
  %last_stop = load atomic i64, ptr %status monotonic, align 8
  %has_stopped = icmp ne i64 %last_stop, 0
  %ended = zext i1 %has_stopped to i64
  %outcome = select i1 %has_failed, i64 2, i64 %ended
  ret i64 %outcome

leave:
  call void @executor.awake(ptr %wake, ptr %done_tiles)
  %left_failure_at = getelementptr i64, ptr %status, i64 1
  %left_failure = load atomic i64, ptr %left_failure_at monotonic, align 8
  %left_failed = icmp ne i64 %left_failure, 0
  %left_outcome = select i1 %left_failed, i64 2, i64 1
  ret i64 %left_outcome
}

define internal ${cc}i1 @executor.group(ptr %first, i64 %count, ptr %scratch, ptr %status)
    $attributes {
entry:
  br label %next_step

next_step:
  %step = phi i64 [ 0, %entry ], [ %following, %step_done ]
  %words = getelementptr [8 x i64], ptr %first, i64 %step
$step_words
  br label %more

more:
  %tile = phi i64 [ 0, %next_step ], [ %end, %compute ]
  %some = icmp slt i64 %tile, %tiles
  %following = add i64 %step, 1
  br i1 %some, label %look, label %step_done

look:
  %stop = call i1 @executor.is_stopped(ptr %status)
  br i1 %stop, label %stopped, label %compute

compute:
  %wished = add i64 %tile, %chunk
  %end = call i64 @llvm.smin.i64(i64 %wished, i64 %tiles)
  call ${cc}void %kernel(ptr %buffers, ptr %sizes, i64 %tile, i64 %end, ptr %scratch, ptr %status)
  br label %more

step_done:
  %is_last = icmp eq i64 %following, %count
  br i1 %is_last, label %done, label %next_step

done:
  ; A kernel may have stopped inside of its last tile: what it left is not to be read.
  %has_stopped = call i1 @executor.is_stopped(ptr %status)
  ret i1 %has_stopped

stopped:
  ret i1 true
}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


def calling_convention(target: CpuTarget) -> str:
    """Return LLVM's name of the calling convention on that target; "" for C's own.

    Objects are ELF, whose C convention is not that of Windows.
    """
    return "win64cc" if target.os == "windows" else ""


def executor_module(target: CpuTarget, *, attributes: str = "") -> str:
    """Return the executor for a target, as a module of LLVM IR.

    Args:
        target: target whose system decides how threads wait.
        attributes: attributes of each function, as LLVM IR writes them.
    """
    text = Template(_RUN + WAVE_FUNCTIONS + TEAM_FUNCTIONS).substitute(
        cc=f"{calling_convention(target)} ".lstrip(),
        attributes=f"nounwind {attributes}".rstrip(),
        step_words=_STEP_WORDS,
        moment_ns=_MOMENT_NS,
        long_ns=_LONG_NS,
    )
    return waiting_functions(target) + text
