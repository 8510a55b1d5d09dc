"""The executor's waves: the function by which threads share a step in order, as LLVM IR.

The tiles of such a step come in *waves*: the tiles of one wave need the output of the wave before,
as the steps of a recurrent layer do. A wave is cut into parts. A thread claims a part in one word,
with the wave's number in its upper half and a bit for each claimed part in its lower half. The next
wave begins when all tiles of the one before are done. So here, too, nobody waits for a thread that
has not begun. If it is free, a thread takes the part that it had in the wave before, whose data,
such as weights, is in its core's cache. Kernels walk backward through every other wave, and parts
are then counted from the other end, so that data read last is read first.
"""

from __future__ import annotations

#: Template: ``$cc`` and ``$attributes`` are calling convention and attributes of functions that
#: Python calls; ``$step_words`` reads a step's words; ``$moment_ns`` is the sleep between checks.
WAVE_FUNCTIONS = """
define internal ${cc}i1 @executor.waves(
    ptr %words, ptr %claims_at, i64 %thread, ptr %scratch, ptr %launch) $attributes {
entry:
$step_words
  %wave_at = getelementptr i64, ptr %words, i64 6
  %wave = load i64, ptr %wave_at
  %status_at = getelementptr i64, ptr %launch, i64 5
  %status = load ptr, ptr %status_at
  %wait_at = getelementptr i64, ptr %launch, i64 6
  %wait = load ptr, ptr %wait_at
  %wake_at = getelementptr i64, ptr %launch, i64 7
  %wake = load ptr, ptr %wake_at
  %spins_at = getelementptr i64, ptr %launch, i64 8
  %spins = load i64, ptr %spins_at
  %done_tiles = getelementptr i64, ptr %claims_at, i64 1
  %waiters = getelementptr i64, ptr %claims_at, i64 2
  %above = add i64 %wave, %chunk
  %rounded = sub i64 %above, 1
  %parts = udiv i64 %rounded, %chunk
  %forward_part = urem i64 %thread, %parts
  %last_part = sub i64 %parts, 1
  %backward_part = sub i64 %last_part, %forward_part
  %beyond_parts = shl i64 1, %parts
  %all_parts = sub i64 %beyond_parts, 1
  %has_none = icmp eq i64 %tiles, 0
  br i1 %has_none, label %finished, label %next

next:
  %spun = phi i64 [ 0, %entry ], [ 0, %claim ], [ 0, %computed ], [ %spun_more, %pause ],
                  [ %spins, %slept ]
  %stop = call i1 @executor.is_stopped(ptr %status)
  br i1 %stop, label %stopped, label %look

look:
  %claims = load atomic i64, ptr %claims_at acquire, align 8
  %number = lshr i64 %claims, 32
  %taken = and i64 %claims, 4294967295
  %is_taken = icmp eq i64 %taken, %all_parts
  br i1 %is_taken, label %all_taken, label %claim

all_taken:
  %next_number = add i64 %number, 1
  %until = mul i64 %next_number, %wave
  %done = load atomic i64, ptr %done_tiles acquire, align 8
  %is_done = icmp uge i64 %done, %until
  br i1 %is_done, label %wave_done, label %spin_or_sleep

wave_done:
  %was_last = icmp uge i64 %until, %tiles
  br i1 %was_last, label %finished, label %claim

claim:
  %turn = phi i64 [ %number, %look ], [ %next_number, %wave_done ]
  %others = phi i64 [ %taken, %look ], [ 0, %wave_done ]
  %is_backward = trunc i64 %turn to i1
  %own_part = select i1 %is_backward, i64 %backward_part, i64 %forward_part
  %own_bit = shl i64 1, %own_part
  %own_taken = and i64 %others, %own_bit
  %is_own_free = icmp eq i64 %own_taken, 0
  %free = xor i64 %others, %all_parts
  %first_free = call i64 @llvm.cttz.i64(i64 %free, i1 false)
  %part = select i1 %is_own_free, i64 %own_part, i64 %first_free
  %bit = shl i64 1, %part
  %now_taken = or i64 %others, %bit
  %upper = shl i64 %turn, 32
  %claimed = or i64 %upper, %now_taken
  %exchange = cmpxchg ptr %claims_at, i64 %claims, i64 %claimed acq_rel acquire, align 8
  %is_ours = extractvalue { i64, i1 } %exchange, 1
  br i1 %is_ours, label %compute, label %next

compute:
  %wave_first = mul i64 %turn, %wave
  %part_first = mul i64 %part, %chunk
  %part_wished = add i64 %part_first, %chunk
  %part_end = call i64 @llvm.smin.i64(i64 %part_wished, i64 %wave)
  %first = add i64 %wave_first, %part_first
  %end = add i64 %wave_first, %part_end
  call ${cc}void %kernel(ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status)
  %computed_tiles = sub i64 %end, %first
  %before = atomicrmw add ptr %done_tiles, i64 %computed_tiles seq_cst, align 8
  %sleeping = load atomic i32, ptr %waiters seq_cst, align 4
  %nobody = icmp eq i32 %sleeping, 0
  br i1 %nobody, label %computed, label %wake_them

wake_them:
  call void @executor.awake(ptr %wake, ptr %done_tiles)
  br label %computed

computed:
  br label %next

spin_or_sleep:
  %may_spin = icmp slt i64 %spun, %spins
  br i1 %may_spin, label %pause, label %sleep

pause:
  %spun_more = add i64 %spun, 1
  call void @executor.pause()
  br label %next

sleep:
  %sleepers = atomicrmw add ptr %waiters, i32 1 seq_cst, align 4
  %seen = load atomic i64, ptr %done_tiles seq_cst, align 8
  %done_by_now = icmp uge i64 %seen, %until
  br i1 %done_by_now, label %slept, label %sleep_on

sleep_on:
  %low = trunc i64 %seen to i32
  call void @executor.sleep(ptr %wait, ptr %done_tiles, i32 %low, i64 $moment_ns)
  br label %slept

slept:
  %one_less = atomicrmw sub ptr %waiters, i32 1 seq_cst, align 4
  br label %next

finished:
  ret i1 false

stopped:
  ret i1 true
}

declare i64 @llvm.cttz.i64(i64, i1)
"""
