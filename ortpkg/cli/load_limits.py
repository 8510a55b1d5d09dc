"""``--timeout`` and ``--memory-limit`` of commands that load models, which are not trusted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument
from ortpkg.cli.rendering import Output
from ortpkg.cli.run_guard import end_process
from ortpkg.errors import LimitExceededError
from ortpkg.quantities import limit_text, time_limit_text

DEFAULT_TIMEOUT_S = 600.0
#: Memory that modules and a model's own objects may use, whatever the limit.
_FREE_NBYTES = 256 << 20
#: Interval in which a computation is checked, and time that it may exceed its limit, in seconds.
_INTERVAL_S, _GRACE_S = 0.05, 2.0

TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="T",
        help=(
            "Time that running may take, all samples and steps together, and loading a model, and"
            " comparing files with their digests: 90s, 500ms; a number alone is seconds. Default:"
            " 10min."
        ),
        parser=duration_argument,
    ),
]
MemoryLimitOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=(
            "Memory that running may take, weights included: 500MB, 1.5GiB; a number alone is"
            " bytes. Default: the machine's."
        ),
        parser=nbytes_argument,
    ),
]
LoadTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="T",
        help="Time that it may take: 90s, 500ms; a number alone is seconds. Default: 10min.",
        parser=duration_argument,
    ),
]
LoadMemoryLimitOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=(
            "Memory that it may take: 500MB, 1.5GiB; a number alone is bytes. Default: the"
            " machine's."
        ),
        parser=nbytes_argument,
    ),
]


@contextmanager
def load_limited(
    timeout_s: float | None, memory_limit_nbytes: int | None, output: Output
) -> Iterator[None]:
    """End what is done in this context at its limits, with LimitExceededError.

    If no check of the limits is reached (in a library's code), the process ends, with the same
    error.
    """
    from ortpkg.graph.load_control import LoadControl, load_limits  # with the models
    from ortpkg.host.memory import resident_nbytes

    timeout_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    control = LoadControl(memory_limit_nbytes=memory_limit_nbytes, timeout_s=timeout_s, what="it")
    done = threading.Event()
    watch = threading.Thread(
        target=_watch,
        args=(done, timeout_s, memory_limit_nbytes, resident_nbytes(), output),
        name="ortpkg-load-limits",
        daemon=True,
    )
    watch.start()
    try:
        with load_limits(control):
            yield
    finally:
        done.set()
        watch.join()


def _watch(
    done: threading.Event,
    timeout_s: float,
    memory_limit_nbytes: int | None,
    held_nbytes: int,
    output: Output,
) -> None:
    from ortpkg.host.memory import resident_nbytes

    deadline_s = time.monotonic() + timeout_s + _GRACE_S
    allowed_nbytes = held_nbytes + (memory_limit_nbytes or 0) + _FREE_NBYTES
    while not done.wait(_INTERVAL_S):
        if time.monotonic() > deadline_s:
            limit = time_limit_text(timeout_s)
            error = LimitExceededError(f"it passed its time limit of {limit}", limit="time")
        elif memory_limit_nbytes is not None and resident_nbytes() > allowed_nbytes:
            limit = limit_text(memory_limit_nbytes)
            error = LimitExceededError(f"it passed its memory limit of {limit}", limit="memory")
        else:
            continue
        end_process(error, output)
