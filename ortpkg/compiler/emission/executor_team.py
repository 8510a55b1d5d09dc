"""The part of the executor by which threads of a team join and leave runs, as LLVM IR.

``lead`` publishes a launch, runs it as its first thread, and returns when no worker uses anything
that may be freed with it. ``work`` is the life of a worker: it waits, first spinning for a bounded
time and then asleep, until it is called to a run or ended by ``dismiss``.
:mod:`ortpkg.compiler.machine_code.executor_abi` describes the words of a team and of a launch.
"""

from __future__ import annotations

#: Template: ``$cc`` and ``$attributes`` are calling convention and attributes of functions that
#: Python calls; ``$moment_ns`` and ``$long_ns`` are sleeps between checks, in and between runs.
TEAM_FUNCTIONS = """
define ${cc}i64 @lead(ptr %team, ptr %launch) $attributes {
  %launch_at = getelementptr i64, ptr %team, i64 1
  %inside_at = getelementptr i64, ptr %team, i64 2
  %needs_waking_at = getelementptr i64, ptr %launch, i64 9
  %needs_waking = load i64, ptr %needs_waking_at
  %wakes = icmp ne i64 %needs_waking, 0
  %address = ptrtoint ptr %launch to i64
  store atomic i64 %address, ptr %launch_at seq_cst, align 8
  call void @executor.call(ptr %team, i1 %wakes)
  %outcome = call ${cc}i64 @run(ptr %launch, i64 0)
  store atomic i64 0, ptr %launch_at seq_cst, align 8
  call void @executor.await_zero(ptr %team, ptr %inside_at)
  %is_done = icmp eq i64 %outcome, 0
  br i1 %is_done, label %done, label %await_workers

await_workers:
  ; They may be inside of a tile, and write.
  %helpers_at = getelementptr i64, ptr %launch, i64 10
  call void @executor.await_zero(ptr %team, ptr %helpers_at)
  br label %done

done:
  ret i64 %outcome
}

define internal void @executor.await_zero(ptr %team, ptr %word) {
entry:
  %wait_at = getelementptr i64, ptr %team, i64 4
  %wait = load ptr, ptr %wait_at
  %spins_at = getelementptr i64, ptr %team, i64 6
  %spins = load i64, ptr %spins_at
  %leader_sleeps = getelementptr i64, ptr %team, i64 8
  br label %spin

spin:
  %spun = phi i64 [ 0, %entry ], [ %spun_more, %pause ], [ %spins, %slept ]
  %inside = load atomic i64, ptr %word seq_cst, align 8
  %alone = icmp eq i64 %inside, 0
  br i1 %alone, label %done, label %spin_or_sleep

spin_or_sleep:
  %may_spin = icmp slt i64 %spun, %spins
  br i1 %may_spin, label %pause, label %sleep

pause:
  %spun_more = add i64 %spun, 1
  call void @executor.pause()
  br label %spin

sleep:
  store atomic i64 1, ptr %leader_sleeps seq_cst, align 8
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %alone_now = icmp eq i64 %seen, 0
  br i1 %alone_now, label %slept, label %sleep_on

sleep_on:
  %low = trunc i64 %seen to i32
  call void @executor.sleep(ptr %wait, ptr %word, i32 %low, i64 $moment_ns)
  br label %slept

slept:
  store atomic i64 0, ptr %leader_sleeps seq_cst, align 8
  br label %spin

done:
  ret void
}

define internal void @executor.leave(ptr %team, ptr %word) {
entry:
  %wake_at = getelementptr i64, ptr %team, i64 5
  %wake = load ptr, ptr %wake_at
  %leader_sleeps = getelementptr i64, ptr %team, i64 8
  %were_inside = atomicrmw sub ptr %word, i64 1 seq_cst, align 8
  ; From here on a launch may be gone: its word is no more than an address.
  %leader = load atomic i64, ptr %leader_sleeps seq_cst, align 8
  %leader_waits = icmp ne i64 %leader, 0
  br i1 %leader_waits, label %tell_leader, label %done

tell_leader:
  call void @executor.awake(ptr %wake, ptr %word)
  br label %done

done:
  ret void
}

define ${cc}void @work(ptr %team, i64 %thread) $attributes {
entry:
  %launch_at = getelementptr i64, ptr %team, i64 1
  %inside_at = getelementptr i64, ptr %team, i64 2
  %end_at = getelementptr i64, ptr %team, i64 3
  %wait_at = getelementptr i64, ptr %team, i64 4
  %wait = load ptr, ptr %wait_at
  %spins_at = getelementptr i64, ptr %team, i64 6
  %spins = load i64, ptr %spins_at
  %sleepers = getelementptr i64, ptr %team, i64 7
  br label %idle

idle:
  %known = phi i32 [ 0, %entry ], [ %now, %worked ]
  br label %spin

spin:
  %spun = phi i64 [ 0, %idle ], [ %spun_more, %pause ], [ %spins, %slept ]
  %now = load atomic i32, ptr %team seq_cst, align 4
  %is_called = icmp ne i32 %now, %known
  br i1 %is_called, label %called, label %spin_or_sleep

spin_or_sleep:
  %may_spin = icmp slt i64 %spun, %spins
  br i1 %may_spin, label %pause, label %sleep

pause:
  %spun_more = add i64 %spun, 1
  call void @executor.pause()
  br label %spin

sleep:
  %others = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 4
  %seen = load atomic i32, ptr %team seq_cst, align 4
  %called_by_now = icmp ne i32 %seen, %known
  br i1 %called_by_now, label %slept, label %sleep_on

sleep_on:
  call void @executor.sleep(ptr %wait, ptr %team, i32 %known, i64 $long_ns)
  br label %slept

slept:
  %one_less = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 4
  br label %spin

called:
  %end = load atomic i64, ptr %end_at seq_cst, align 8
  %is_end = icmp ne i64 %end, 0
  br i1 %is_end, label %done, label %enter

enter:
  %entered = atomicrmw add ptr %inside_at, i64 1 seq_cst, align 8
  %address = load atomic i64, ptr %launch_at seq_cst, align 8
  %is_over = icmp eq i64 %address, 0
  br i1 %is_over, label %exit, label %help

help:
  %launch = inttoptr i64 %address to ptr
  %helpers_at = getelementptr i64, ptr %launch, i64 10
  %helped_before = atomicrmw add ptr %helpers_at, i64 1 seq_cst, align 8
  ; From here on the leader may end the run: the launch outlasts its helpers.
  call void @executor.leave(ptr %team, ptr %inside_at)
  %ignored = call ${cc}i64 @run(ptr %launch, i64 %thread)
  call void @executor.leave(ptr %team, ptr %helpers_at)
  br label %worked

exit:
  call void @executor.leave(ptr %team, ptr %inside_at)
  br label %worked

worked:
  br label %idle

done:
  ret void
}

define ${cc}void @dismiss(ptr %team) $attributes {
  %end_at = getelementptr i64, ptr %team, i64 3
  store atomic i64 1, ptr %end_at seq_cst, align 8
  call void @executor.call(ptr %team, i1 true)
  ret void
}

define internal void @executor.call(ptr %team, i1 %wakes) {
entry:
  %wake_at = getelementptr i64, ptr %team, i64 5
  %wake = load ptr, ptr %wake_at
  %sleepers = getelementptr i64, ptr %team, i64 7
  %before = atomicrmw add ptr %team, i32 1 seq_cst, align 4
  %sleeping = load atomic i32, ptr %sleepers seq_cst, align 4
  %has_sleepers = icmp ne i32 %sleeping, 0
  %is_needed = and i1 %has_sleepers, %wakes
  br i1 %is_needed, label %wake_them, label %done
wake_them:
  call void @executor.awake(ptr %wake, ptr %team)
  br label %done
done:
  ret void
}
"""
