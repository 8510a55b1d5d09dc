"""The child's side of a benchmark: makes one session, runs it, says how long that took and how much memory.

One process per candidate and round, so that no backend finds another's threads, caches or memory. What fails while the
session is made is raised; what fails in a run is returned with its stage, because a feed may be to blame.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.benchmarking.memory import gpu_memory_nbytes, peak_memory_nbytes
from ortpkg.errors import InvalidFeedError, TrustRequiredError

#: More times than these are not returned by one round; a run of microseconds does not need more.
_MOST_RUNS = 20_000
_WARM_UP_RUNS = 3
_WARM_UP_S = 0.2


def measure(
    *,
    session: Mapping[str, Any],
    feeds: str,
    outputs: str,
    checked: int,
    check_s: float,
    repeat: int,
    duration_s: float,
    most_s: float,
    spawned_ns: int,
) -> dict[str, Any]:
    """Measures one candidate for one round.

    Args:
        session: :meth:`Candidate.session_arguments`.
        feeds: file of feeds (``array_file``).
        outputs: file to write the outputs of the first ``checked`` feeds to; "" for none.
        checked, check_s: run so many feeds for their outputs, but no longer than that.
        repeat, duration_s: then at least so many timed runs, for at least so long; no runs where ``repeat`` is 0.
        most_s: the timed runs end after so long, whatever ``repeat`` says, but not before the first one.
        spawned_ns: ``time.monotonic_ns()`` when this process was started.

    Returns JSON: cold_start_s, session_creation_s, first_run_s, times_ns, peak_memory_nbytes, gpu_memory_nbytes,
    ``fell_back``: what ran instead where the EP took no node; ``beside``: what ran a part of the model; ``failed``
    where a run failed; or ``refused``: why the session needs trust.
    """
    baseline_nbytes = peak_memory_nbytes()
    # From here on everything counts as the session's: numpy, the engine, the backend's library.
    from ortpkg.benchmarking.array_file import read_arrays
    from ortpkg.benchmarking.child_session import create_session, describe_placement

    start_ns = time.monotonic_ns()
    try:
        made = create_session(session)
    except TrustRequiredError as error:
        return {"refused": str(error)}
    ready_ns = time.monotonic_ns()
    fell_back, beside = describe_placement(made, session["ep_device"])
    result: dict[str, Any] = {
        "cold_start_s": (ready_ns - spawned_ns) / 1e9,
        "session_creation_s": (ready_ns - start_ns) / 1e9,
        "fell_back": fell_back,
        "beside": beside,
    }
    if fell_back:
        return result
    runs = read_arrays(Path(feeds))
    try:
        result |= _run_all(made, runs, outputs, checked, check_s, repeat, duration_s, most_s)
    except InvalidFeedError as error:
        return {**result, "failed": str(error), "is_feed_to_blame": True}
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is the answer
        return {**result, "failed": f"{type(error).__name__}: {error}"}
    result["peak_memory_nbytes"] = _above(peak_memory_nbytes(), baseline_nbytes)
    if (session["ep_device"]["device"] or {}).get("type") in {"gpu", "npu"}:
        result["gpu_memory_nbytes"] = gpu_memory_nbytes(os.getpid())
    return result


def _run_all(
    session: Any,
    feeds: Sequence[Mapping[str, Any]],
    outputs: str,
    checked: int,
    check_s: float,
    repeat: int,
    duration_s: float,
    most_s: float,
) -> dict[str, Any]:
    names = [declared.name for declared in session.get_outputs()]
    start_ns = time.perf_counter_ns()
    first = session.run(None, feeds[0])
    first_run_s = (time.perf_counter_ns() - start_ns) / 1e9
    if checked:
        from ortpkg.benchmarking.array_file import write_arrays  # loaded by the caller

        found = [dict(zip(names, first, strict=True))]
        deadline_s = time.monotonic() + check_s
        for feed in feeds[1:checked]:
            if time.monotonic() > deadline_s:
                break
            found.append(dict(zip(names, session.run(None, feed), strict=True)))
        write_arrays(Path(outputs), found)
    times_ns = _timed(session, feeds, repeat, duration_s, most_s) if repeat else []
    return {"first_run_s": first_run_s, "times_ns": times_ns}


def _timed(
    session: Any, feeds: Sequence[Mapping[str, Any]], repeat: int, duration_s: float, most_s: float
) -> list[int]:
    warm_until_s = time.monotonic() + _WARM_UP_S
    for number in range(_WARM_UP_RUNS):
        session.run(None, feeds[number % len(feeds)])
        if time.monotonic() > warm_until_s:
            break
    times: list[int] = []
    began_s = time.monotonic()
    while len(times) < _MOST_RUNS:
        feed = feeds[len(times) % len(feeds)]
        start_ns = time.perf_counter_ns()
        session.run(None, feed)
        times.append(time.perf_counter_ns() - start_ns)
        elapsed_s = time.monotonic() - began_s
        if elapsed_s >= most_s or (len(times) >= repeat and elapsed_s >= duration_s):
            break
    return times


def _above(peak_nbytes: int | None, baseline_nbytes: int | None) -> int | None:
    if peak_nbytes is None or baseline_nbytes is None:
        return None
    return max(0, peak_nbytes - baseline_nbytes)
