"""How compiled code is called: the words that Python and the executor share, version 1.

Every code has, beside its kernels, four functions::

    void kernel(ptr buffers, ptr sizes, i64 first_tile, i64 end_tile, ptr scratch, ptr status)
    i64  run(ptr launch, i64 thread)      a thread's part of one run: 0 done, 1 stopped, 2 an access
                                          was out of bounds
    i64  lead(ptr team, ptr launch)       a run with a team: calls its workers, runs as thread 0,
                                          returns when no worker computes any more; as long as
                                          HELPERS is not 0 some read the launch, and nothing else
    void work(ptr team, i64 thread)       a worker's whole life, 1 <= thread; ends after ``dismiss``
    void dismiss(ptr team)                ends the workers of a team

``launch`` and ``team`` are arrays of 64-bit words, of which this module has the indices. A step is
eight words: kernel, buffers, sizes (addresses), tile count, chunk, how many steps from this one on
form a group that one thread does alone (0: threads share the step's tiles), how many tiles a wave
has (0: threads take them in any order; else a wave has at most 32 chunks, and there are fewer than
2**31 waves), and one that is 0. The counters of a step are 64 bytes, all 0 before a run: tiles
taken, or the wave with the chunks of it that are taken; tiles done (64 bits each); how many threads
sleep (32 bits); and from word 3 on the tiles taken from the front, and from the end. A group counts
as one tile of its first step. ``status`` is eight words: the first asks everybody to stop where it
is not 0, the second is 1 + the ordinal of an access that failed.
"""

from __future__ import annotations

from enum import IntEnum

RUN_FUNCTION = "run"
LEAD_FUNCTION = "lead"
WORK_FUNCTION = "work"
DISMISS_FUNCTION = "dismiss"
EXECUTOR_FUNCTIONS = (RUN_FUNCTION, LEAD_FUNCTION, WORK_FUNCTION, DISMISS_FUNCTION)

STEP_WORDS = 8
COUNTER_WORDS = 8
STATUS_WORDS = 8
#: Words of the status.
STOP, FAILED_ACCESS = 0, 1


class LaunchWord(IntEnum):
    """What stands where in a launch."""

    STEP_COUNT = 0
    STEPS = 1
    COUNTERS = 2
    SCRATCH = 3
    SCRATCH_STRIDE = 4
    STATUS = 5
    WAIT = 6
    WAKE = 7
    SPINS = 8
    #: Not 0: workers that sleep are woken for the run.
    WAKES = 9
    #: Workers inside of the run.
    HELPERS = 10


class TeamWord(IntEnum):
    """What stands where in a team."""

    GENERATION = 0
    LAUNCH = 1
    INSIDE = 2
    END = 3
    WAIT = 4
    WAKE = 5
    SPINS = 6
    SLEEPERS = 7
    LEADER_SLEEPS = 8


LAUNCH_WORDS = 16
TEAM_WORDS = 16


class Outcome(IntEnum):
    """What ``run`` and ``lead`` return."""

    DONE = 0
    STOPPED = 1
    OUT_OF_BOUNDS = 2
