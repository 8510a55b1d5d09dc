"""Calling interface of compiled code: the words that Python and the executor share, version 1.

Besides its kernels, all code has four functions::

    void kernel(ptr buffers, ptr sizes, i64 first_tile, i64 end_tile, ptr scratch, ptr status)
    i64  run(ptr launch, i64 thread)      a thread's part of one run: 0 done, 1 stopped, 2 an access
                                          was out of bounds
    i64  lead(ptr team, ptr launch)       a run with a team: calls its workers, runs as thread 0,
                                          returns when no worker computes any more; while HELPERS
                                          is not 0, some workers still read the launch, nothing else
    void work(ptr team, i64 thread)       a worker's whole life, 1 <= thread; ends after ``dismiss``
    void dismiss(ptr team)                ends the workers of a team

``launch`` and ``team`` are arrays of 64-bit words; this module has their indices. A step is
eight words: kernel, buffers, sizes (addresses), tile count, chunk, number of steps from this one on
that form a group for one thread (0: threads share the step's tiles), number of tiles in a wave
(0: threads take tiles in any order; otherwise a wave has at most 32 chunks, and there are fewer
than
2**31 waves), and one that is 0. The counters of a step are 64 bytes, all 0 before a run: tiles
taken, or the wave with its taken chunks; tiles done (64 bits each); number of sleeping threads (32
bits); and from word 3 on the tiles taken from the front, and from the end. A group counts
as one tile of its first step. ``status`` is eight words: a first word other than 0 asks all threads
to stop, the second is 1 + the ordinal of an access that failed.
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
#: Indices of the words of the status.
STOP, FAILED_ACCESS = 0, 1


class LaunchWord(IntEnum):
    """Indices of the words of a launch."""

    STEP_COUNT = 0
    STEPS = 1
    COUNTERS = 2
    SCRATCH = 3
    SCRATCH_STRIDE = 4
    STATUS = 5
    WAIT = 6
    WAKE = 7
    SPINS = 8
    #: If not 0, sleeping workers are woken for the run.
    WAKES = 9
    #: Number of workers inside the run.
    HELPERS = 10


class TeamWord(IntEnum):
    """Indices of the words of a team."""

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
    """Return values of ``run`` and ``lead``."""

    DONE = 0
    STOPPED = 1
    OUT_OF_BOUNDS = 2
