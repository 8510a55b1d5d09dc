"""``--timeout`` and ``--memory-limit`` of commands that load models, which may be a stranger's."""

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
#: Modules and a model's own objects may take so much, whatever the limit.
_FREE_NBYTES = 256 << 20
#: How often a computation is looked at, and how long one that is past its time may go on.
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
    """What is done in here ends at its limits, with LimitExceededError.

    Where nobody asks for the limits (in a library's code), this process ends, as at that error.
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
