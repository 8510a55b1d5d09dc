"""Call a function that loads foreign code in a child process; a crash, hang or exit is a result.

A child protects from accidents, not from attackers: it has all rights of this process.
:mod:`ortpkg.foundations.isolation.process` describes how it is started and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.host.memory import DescendantMemory, resident_nbytes
from ortpkg.foundations.isolation.process import end_process, exit_reason, last_words, start_process
from ortpkg.foundations.quantities import limit_text, time_limit_text

_MOST_RESULT_BYTES = 1 << 22
_MOST_ERROR_BYTES = 1 << 14
_MEMORY_POLL_S = 0.05
#: Least time for a child whose output has ended to exit, because a busy machine is slow.
_LINGER_S = 5.0


class ChildOutcome(StrEnum):
    """Way in which a child ended."""

    DONE = "done"
    RAISED = "raised"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    NO_RESULT = "ended without a result"
    TOO_MUCH_OUTPUT = "too much output"
    TOO_MUCH_MEMORY = "too much memory"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """Result of a child.

    Attributes:
        outcome: DONE, or the kind of failure.
        value: Result of the function (JSON) if DONE, else None.
        reason: Sentence on a failure, or "".
    """

    outcome: ChildOutcome
    value: Any = None
    reason: str = ""


def call_in_child(
    function: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float,
    memory_limit_nbytes: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> ChildResult:
    """Call ``"package.module:function"`` with JSON ``arguments`` in a child process.

    Whatever the child does is in the result and never raised. The child and everything that it
    started (on Windows: only the child) are killed when ``timeout_s`` has passed, when it writes
    more than 4 MiB, when this call is interrupted, and soon after it holds more than
    ``memory_limit_nbytes`` (checked every 50 ms). ``variables`` are set in its environment.
    """
    try:
        child = start_process(
            "ortpkg.foundations.isolation.child_main", function, variables=variables
        )
    except OSError as error:
        reason = f"the interpreter cannot be started: {error.strerror}"
        return ChildResult(outcome=ChildOutcome.NOT_STARTED, reason=reason)
    try:
        return _converse(
            child, json.dumps(dict(arguments)).encode(), timeout_s, memory_limit_nbytes
        )
    finally:
        end_process(child)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _converse(
    child: subprocess.Popen[bytes],
    request: bytes,
    timeout_s: float,
    memory_limit_nbytes: int | None,
) -> ChildResult:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    deadline_s = time.monotonic() + timeout_s
    output = _BoundedReader(child.stdout, _MOST_RESULT_BYTES)
    errors = _BoundedReader(child.stderr, _MOST_ERROR_BYTES, keep_reading=True)
    with contextlib.suppress(OSError):  # it died before it read; its exit status says how
        rest = memoryview(request)
        while rest:  # an unbuffered write may end early
            rest = rest[child.stdin.write(rest) :]
        child.stdin.close()
    if memory_limit_nbytes is None:
        output.join(timeout_s)
    elif _outgrows(child.pid, output, timeout_s, memory_limit_nbytes):
        reason = f"it held more than {limit_text(memory_limit_nbytes)} of memory"
        return ChildResult(outcome=ChildOutcome.TOO_MUCH_MEMORY, reason=reason)
    if output.is_alive():
        return ChildResult(
            outcome=ChildOutcome.TIMED_OUT, reason=f"no answer within {time_limit_text(timeout_s)}"
        )
    if output.overflowed:
        return ChildResult(
            outcome=ChildOutcome.TOO_MUCH_OUTPUT,
            reason=f"more than {_MOST_RESULT_BYTES} bytes came",
        )
    try:
        status = child.wait(timeout=max(_LINGER_S, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return ChildResult(
            outcome=ChildOutcome.TIMED_OUT, reason="it closed its output but did not end"
        )
    errors.join(1)
    return _result_of(status, output.text, errors.text)


def _outgrows(pid: int, output: _BoundedReader, timeout_s: float, limit_nbytes: int) -> bool:
    """Wait for the child's output; return True as soon as its memory exceeds the limit.

    Processes that it has started count, too, if the system reports them.
    """
    deadline_s = time.monotonic() + timeout_s
    beside = DescendantMemory(pid)
    while output.is_alive() and (left_s := deadline_s - time.monotonic()) > 0:
        if resident_nbytes(pid) + beside.nbytes() > limit_nbytes:
            return True
        output.join(min(_MEMORY_POLL_S, left_s))
    return False


def _result_of(status: int, output: str, errors: str) -> ChildResult:
    if status != 0:
        return ChildResult(
            outcome=ChildOutcome.CRASHED, reason=exit_reason(status) + last_words(errors)
        )
    try:
        reply = json.loads(output)
    except (ValueError, RecursionError):
        reply = None
    if isinstance(reply, dict) and "value" in reply:
        return ChildResult(outcome=ChildOutcome.DONE, value=reply["value"])
    if isinstance(reply, dict) and "error" in reply:
        return ChildResult(
            outcome=ChildOutcome.RAISED, reason=f"it raised {quoted(reply['error'])}"
        )
    reason = "it ended with status 0 without a result" + last_words(errors)
    return ChildResult(outcome=ChildOutcome.NO_RESULT, reason=reason)


class _BoundedReader(threading.Thread):
    """Thread that reads a pipe to its end, but keeps only the first ``limit`` bytes."""

    def __init__(self, pipe: IO[bytes], limit: int, *, keep_reading: bool = False) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._limit = limit
        self._keep_reading = keep_reading
        self._chunks: list[bytes] = []
        self.overflowed = False
        self.start()

    def run(self) -> None:
        received = 0
        while True:
            try:
                chunk = os.read(self._pipe.fileno(), 1 << 16)
            except (OSError, ValueError):  # lost a race with the child's end
                return
            if not chunk:
                return
            received += len(chunk)
            if received <= self._limit:
                self._chunks.append(chunk)
                continue
            self.overflowed = True
            if not self._keep_reading:
                return

    @property
    def text(self) -> str:
        return b"".join(self._chunks).decode("utf-8", "replace")
