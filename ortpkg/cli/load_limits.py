"""``--timeout`` and ``--memory-limit`` of commands that load models, which are not trusted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument
from ortpkg.cli.rendering import Output
from ortpkg.cli.run_guard import end_process
from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.quantities import limit_text, time_limit_text

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


@dataclass(frozen=True)
class LoadLimits:
    """Limits of a command that loads models and runs none, in seconds and bytes."""

    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="T",
            help="Time that it may take: 90s, 500ms; a number alone is seconds. Default: 10min.",
            show_default=False,
            parser=duration_argument,
        ),
    ] = DEFAULT_TIMEOUT_S
    memory_limit: Annotated[
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
    ] = None


@contextmanager
def end_at_limits(limits: LoadLimits, output: Output) -> Iterator[None]:
    """End what is done in this context at its limits, with LimitExceededError.

    If no check of the limits is reached (in a library's code), the process ends, with the same
    error.
    """
    from ortpkg.foundations.host.memory import resident_nbytes
    from ortpkg.graph.load_control import LoadControl, load_limits  # with the models

    control = LoadControl(
        memory_limit_nbytes=limits.memory_limit, timeout_s=limits.timeout, what="it"
    )
    done = threading.Event()
    watch = threading.Thread(
        target=_watch,
        args=(done, limits, resident_nbytes(), output),
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


def _watch(done: threading.Event, limits: LoadLimits, held_nbytes: int, output: Output) -> None:
    from ortpkg.foundations.host.memory import resident_nbytes

    deadline_s = time.monotonic() + limits.timeout + _GRACE_S
    allowed_nbytes = held_nbytes + (limits.memory_limit or 0) + _FREE_NBYTES
    while not done.wait(_INTERVAL_S):
        if time.monotonic() > deadline_s:
            limit = time_limit_text(limits.timeout)
            error = LimitExceededError(f"it passed its time limit of {limit}", limit="time")
        elif limits.memory_limit is not None and resident_nbytes() > allowed_nbytes:
            limit = limit_text(limits.memory_limit)
            error = LimitExceededError(f"it passed its memory limit of {limit}", limit="memory")
        else:
            continue
        end_process(error, output)
