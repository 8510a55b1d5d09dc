"""The child's side of a benchmark: create one session, run it, report time and memory.

There is one process per candidate and round, so that no backend inherits another's threads, caches
or memory. Errors while the session is created are raised; errors of a run are returned with their
stage, because a feed may be the cause.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import InvalidFeedError, ModelFileError, TrustRequiredError
from ortpkg.foundations.host.memory import peak_memory_nbytes
from ortpkg.selection.measuring.gpu_memory import gpu_memory_nbytes

#: Most times that one round returns; runs of microseconds do not need more.
_MOST_RUNS = 20_000
_WARM_UP_RUNS = 3
_WARM_UP_S = 0.2
#: Share of the parent's timeout that runs may take; the rest is for writing outputs and ending.
_SHARE_OF_TIMEOUT = 0.8


def measure(
    *,
    session: Mapping[str, Any],
    feeds: str,
    outputs: str,
    checked: int,
    check_s: float,
    batch_rows: Sequence[int],
    repeat: int,
    duration_s: float,
    most_s: float,
    spawned_ns: int,
    timeout_s: float,
) -> dict[str, Any]:
    """Measure one candidate for one round.

    Args:
        session: :meth:`BenchCandidate.session_arguments`.
        feeds: file of feeds (``exchanged_arrays``).
        outputs: file to write the outputs of the first ``checked`` feeds to; "" for none.
        checked, check_s: number of feeds to run for their outputs, and most seconds for that.
        batch_rows: numbers of rows whose runs are timed last, if the model leaves that open.
        repeat, duration_s: least number of timed runs, and least seconds for them; no runs if
            ``repeat`` is 0.
        most_s: seconds after which the timed runs end in any case, but not before the first one.
        spawned_ns: ``time.monotonic_ns()`` when this process was started.
        timeout_s: seconds after which the parent ends this process as hanging; no run is begun that
            would not end in time.

    Returns:
        JSON with cold_start_s, session_creation_s, first_run_s, times_ns, batch_times,
            peak_memory_nbytes, gpu_memory_nbytes; ``fell_back``: what ran instead if the EP took no
            node; ``beside``: what ran a part of the model; ``failed``: error of a run; ``refused``:
            why the session needs trust; or ``unreadable``: what is wrong with the model's files.
    """
    baseline_nbytes = peak_memory_nbytes()
    # From here on all memory counts as the session's: numpy, the engine, the backend's library.
    from ortpkg.selection.measuring.child_session import create_session, describe_placement
    from ortpkg.selection.measuring.exchanged_arrays import read_arrays

    start_ns = time.monotonic_ns()
    try:
        inference_session = create_session(session)
    except TrustRequiredError as error:
        return {"refused": str(error)}
    except ModelFileError as error:
        return {"unreadable": str(error)}
    ready_ns = time.monotonic_ns()
    fell_back, beside = describe_placement(inference_session, session["ep_device"])
    result: dict[str, Any] = {
        "cold_start_s": (ready_ns - spawned_ns) / 1e9,
        "session_creation_s": (ready_ns - start_ns) / 1e9,
        "fell_back": fell_back,
        "beside": beside,
    }
    if fell_back:
        return result
    runs = _Runs(
        inference_session,
        read_arrays(Path(feeds)),
        model=Path(session["model"]),
        ends_ns=spawned_ns + int(timeout_s * _SHARE_OF_TIMEOUT * 1e9),
    )
    try:
        result["first_run_s"] = runs.first_run_s()
        if checked:
            runs.write_outputs(Path(outputs), checked, check_s)
        result["times_ns"] = runs.timed(repeat, duration_s, most_s) if repeat else []
        result["batch_times"] = runs.timed_batches(batch_rows, most_s) if batch_rows else []
    except InvalidFeedError as error:
        return {**result, "failed": str(error), "is_feed_to_blame": True}
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is the result
        return {**result, "failed": f"{type(error).__name__}: {error}"}
    result["peak_memory_nbytes"] = _above(peak_memory_nbytes(), baseline_nbytes)
    if (session["ep_device"]["device"] or {}).get("type") in {"gpu", "npu"}:
        result["gpu_memory_nbytes"] = gpu_memory_nbytes(os.getpid())
    return result


class _Runs:
    """Runs of one session, of which ``first_run_s`` must be called first."""

    def __init__(
        self,
        session: Any,
        feeds: Sequence[Mapping[str, Any]],
        *,
        ends_ns: int,
        model: Path | None = None,
    ) -> None:
        self._session = session
        self._model = model
        self._feeds = feeds
        self._ends_ns = ends_ns
        self._first_outputs: list[Any] = []
        self._last_ns = 0

    def _run(self, number: int) -> list[Any]:
        feed = self._feeds[number % len(self._feeds)]
        start_ns = time.perf_counter_ns()
        outputs: list[Any] = self._session.run(None, feed)
        self._last_ns = time.perf_counter_ns() - start_ns
        return outputs

    def _fits(self) -> bool:
        """Return True if one more run, as long as the last, would end before the timeout."""
        return time.monotonic_ns() + self._last_ns < self._ends_ns

    def first_run_s(self) -> float:
        """Run the first feed, which may still compile, and return its seconds."""
        self._first_outputs = self._run(0)
        return self._last_ns / 1e9

    def write_outputs(self, path: Path, count: int, most_s: float) -> None:
        """Write the outputs of ``count`` feeds, or as many as ``most_s`` allows, to ``path``."""
        from ortpkg.selection.measuring.exchanged_arrays import (
            write_arrays,  # loaded before the session was made
        )

        names = [declared.name for declared in self._session.get_outputs()]
        outputs = [dict(zip(names, self._first_outputs, strict=True))]
        deadline_s = time.monotonic() + most_s
        for number in range(1, min(count, len(self._feeds))):
            if time.monotonic() > deadline_s or not self._fits():
                break
            outputs.append(dict(zip(names, self._run(number), strict=True)))
        write_arrays(path, outputs)

    def timed(self, repeat: int, duration_s: float, most_s: float) -> list[int]:
        """Return nanoseconds per run.

        Only those of the first run if there is no time for another.
        """
        times = [] if self._fits() else [self._last_ns]
        warm_until_s = time.monotonic() + _WARM_UP_S
        for number in range(_WARM_UP_RUNS):
            if time.monotonic() > warm_until_s or self._last_ns > _WARM_UP_S * 1e9:
                break
            self._run(number)
        began_s = time.monotonic()
        while len(times) < _MOST_RUNS and self._fits():
            self._run(len(times))
            times.append(self._last_ns)
            elapsed_s = time.monotonic() - began_s
            if elapsed_s >= most_s or (len(times) >= repeat and elapsed_s >= duration_s):
                break
        return times

    def timed_batches(self, rows: Sequence[int], most_s: float) -> list[tuple[int, float]]:
        """Return rows and seconds per run; none if the model fixes the number of rows."""
        from ortpkg.selection.measuring.batch_times import can_be_joined, measure_batches

        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if not can_be_joined(inputs, outputs, {"": self._model}):
            return []
        left_s = (self._ends_ns - time.monotonic_ns()) / 1e9
        run = partial(self._session.run, None)
        return list(measure_batches(run, self._feeds[0], rows, most_s=min(most_s, left_s)).items())


def _above(peak_nbytes: int | None, baseline_nbytes: int | None) -> int | None:
    if peak_nbytes is None or baseline_nbytes is None:
        return None
    return max(0, peak_nbytes - baseline_nbytes)
