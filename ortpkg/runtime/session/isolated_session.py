"""Sessions in a child process, for plug-ins: a crash ends the child and becomes an error here.

A plug-in's kernels, memories and partitions are part of the engine around them, so the child holds
the whole session: it gets the model's path or bytes, and then inputs for outputs. Time and memory
limits hold to a fraction of a second, since a child can be ended whatever it does:
docs/adr/0009-native-limits.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from ortpkg.foundations.errors import (
    ExecutionProviderError,
    LimitExceededError,
    OrtpkgError,
    RunError,
    SessionError,
    quoted,
)
from ortpkg.foundations.host.turns import Turn
from ortpkg.foundations.isolation.run_watch import Watched, run_watched
from ortpkg.foundations.isolation.value_serialization import load_value
from ortpkg.foundations.isolation.worker import Message, Worker, WorkerCallError, WorkerEndedError
from ortpkg.foundations.quantities import amount_text, limit_text, nbytes_text, time_limit_text
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.run_gate import RunGate
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.providers.isolated_model import LoadLimits
from ortpkg.runtime.providers.plugins import Plugin
from ortpkg.runtime.session.crossing_values import pack_values, unpack_values
from ortpkg.runtime.session.placement import Placement
from ortpkg.runtime.session.session_plan import SessionPlan
from ortpkg.runtime.session.session_request import SessionRequest

_FUNCTION = "ortpkg.runtime.session.isolated_session_worker:open_plugins"
_INTERVAL_S = 0.02
#: Seconds after its limit in which a run may still answer, which saves creating the session anew.
_GRACE_S = 0.25


class IsolatedSession:
    """A session in a child process, created anew for the next run if the child was ended.

    It does one run at a time; others wait.
    """

    def __init__(
        self,
        request: SessionRequest,
        plugins: Sequence[Plugin],
        limits: LoadLimits,
        *,
        allowance_nbytes: int,
    ) -> None:
        """Create the session in a new child process.

        Args:
            request: the model, options and providers.
            plugins: the plug-ins that it runs on; errors name the first.
            limits: limits of creating the session.
            allowance_nbytes: bytes that the model itself may take in addition to the memory limit.

        Raises:
            ExecutionProviderError: the child ended.
            LimitExceededError: a limit was passed.
            OrtpkgError: any error of creating the session in this process.
        """
        self._request = request
        self._plugins = plugins
        self._limits = limits
        self._allowance_nbytes = allowance_nbytes
        self._turn = Turn()
        self._runs = RunGate()
        self._is_closed = False
        self.ep_name = plugins[0].name
        self._worker, self.facts = self._made()
        self._request = replace(request, is_again=True)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Partitions of the model, each with the provider that runs it."""
        return tuple(self.facts["partitions"])

    @property
    def executable(self) -> NoReturn:
        """Raise SessionError: the planned graph lies in the child process."""
        raise SessionError("what is planned of an isolated session lies in its child process")

    def run(
        self,
        feeds: Sequence[Value],
        control: RunControl,
        positions: Sequence[int] | None = None,
        _targets: Mapping[int, Any] | None = None,
    ) -> list[Value]:
        """Return the outputs at ``positions`` (None: all), copied from the child process.

        Raises:
            RunError: a kernel failed, or the child ended.
            OrtpkgError: any other error of a run in this process.
        """
        control.check()
        ticket = self._runs.ticket()
        try:
            with ticket:
                self._turn.take(ticket, control.check)
                return self._run(feeds, control, positions)
        finally:
            self._runs.leave(ticket)

    def is_inside(self) -> bool:
        """Return True if the calling thread is inside a run, as :meth:`SessionState.is_inside`."""
        return self._runs.is_inside()

    def _run(
        self, feeds: Sequence[Value], control: RunControl, positions: Sequence[int] | None
    ) -> list[Value]:
        try:
            self._revive()
            described, buffers = pack_values(feeds)
            header = {
                "action": "run",
                "feeds": described,
                "positions": None if positions is None else list(positions),
                "memory_limit_nbytes": control.caller_limit_nbytes,
                "timeout_s": control.time_left_s,
            }
            reply = self._reply_to(_RunWatch(control), Message(header=header, buffers=buffers))
            return unpack_values(reply.header["outputs"], reply.buffers)
        except OrtpkgError:  # some of these are ValueErrors, too
            raise
        except WorkerEndedError as error:
            raise RunError(
                f"the process in which {self._named} ran the model is no more:"
                f" {_end_text(error, self._worker)}"
            ) from error
        except (WorkerCallError, ValueError) as error:
            raise RunError(
                f"the run in the process of {self._named} failed: {quoted(error)}"
            ) from error

    def get_plan(self, sizes: Mapping[str, int] | None = None) -> SessionPlan:
        """Return the plan from the child; see :meth:`InferenceSession.get_plan`."""
        plan: SessionPlan = self._answer("plan", dict(sizes or {}))
        return plan

    def get_placement(self) -> Placement:
        """Return the placement from the child; see :meth:`InferenceSession.get_placement`."""
        placement: Placement = self._answer("placement")
        return placement

    def end_profiling(self) -> str:
        """Stop profiling in the child process and return the profile's path."""
        return str(self._answer("end_profiling"))

    def close(self) -> None:
        """End the child process; a run under way fails with RunError."""
        self._is_closed = True
        self._worker.close()

    def _answer(self, action: str, *arguments: Any) -> Any:
        holder = threading.Lock()
        with holder:
            self._turn.take(holder, lambda: None)
            try:
                self._revive()
                request = Message(header={"action": action, "arguments": arguments})
                reply = self._reply_to(_Making(self._named, self._limits, self._worker), request)
                return load_value(reply.buffers[0])
            except OrtpkgError:
                raise
            except (WorkerEndedError, WorkerCallError, ValueError) as error:
                raise SessionError(
                    f"the process of {self._named} does not answer: {quoted(error)}"
                ) from error

    def _revive(self) -> None:
        if self._is_closed:
            raise SessionError("the session is closed")
        if not self._worker.is_alive:
            self._worker.close()
            self._worker, self.facts = self._made()

    def _reply_to(self, watch: Watched, request: Message) -> Message:
        return _call(self._worker, watch, request)

    def _made(self) -> tuple[Worker, Mapping[str, Any]]:
        """Return a child process that holds the session, and its description of the session."""
        try:
            worker = Worker(
                _FUNCTION, {"plugins": [[plugin.name, plugin.value] for plugin in self._plugins]}
            )
        except OSError as error:
            raise ExecutionProviderError(
                f"no child process can be started for {self._named}: {error.strerror}",
                ep_name=self.ep_name,
            ) from error
        try:
            # The memory of libraries, which are loaded first, does not count as the model's.
            _call(
                worker,
                _Making(self._named, replace(self._limits, memory_limit_nbytes=None), worker),
                _open(),
            )
            making = _Making(
                self._named, self._limits, worker, self._allowance_nbytes, self._request
            )
            return worker, load_value(_call(worker, making, self._request.message()).buffers[0])
        except BaseException as error:
            worker.close()
            if isinstance(error, OrtpkgError) or not isinstance(
                error, WorkerEndedError | WorkerCallError | ValueError
            ):
                raise
            message = (
                f"the process in which a session on {self._named} was made is no more:"
                f" {_end_text(error, worker)}"
                if isinstance(error, WorkerEndedError)
                else (
                    f"a session on {self._named} cannot be made in a child process: {quoted(error)}"
                )
            )
            raise ExecutionProviderError(message, ep_name=self.ep_name) from error

    @property
    def _named(self) -> str:
        return ", ".join(map(str, self._plugins))


def _open() -> Message:
    """Return the request that loads the child's libraries and sets this process's log level."""
    return Message(
        header={"action": "open", "log_level": logging.getLogger("ortpkg").getEffectiveLevel()}
    )


class _RunWatch:
    """Limits of a run, checked from outside; a run that ends soon after its limit is not ended."""

    def __init__(self, control: RunControl) -> None:
        self._control = control
        self._first: float | None = None
        self.is_memory_limited = control.is_memory_limited

    def check_cancelled(self) -> None:
        try:
            self._control.check()
        except LimitExceededError:
            now = time.monotonic()
            self._first = now if self._first is None else self._first
            if now - self._first > _GRACE_S:
                raise

    def check_allocation(self, nbytes: int) -> None:
        self._control.check_allocation(nbytes)


class _Making:
    """Limits of creating a session, and the caller's request to cancel that."""

    def __init__(
        self,
        named: str,
        limits: LoadLimits,
        worker: Worker,
        allowance_nbytes: int = 0,
        request: SessionRequest | None = None,
    ) -> None:
        self._named = named
        self._limits = limits
        self._worker = worker
        self._allowance_nbytes = allowance_nbytes
        self._request = request
        self.is_memory_limited = limits.memory_limit_nbytes is not None
        self._deadline = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s

    def check_cancelled(self) -> None:
        if self._request is not None:
            self._request.options.check_not_cancelled()
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._limits.timeout_s is not None, "a deadline comes of it"
            raise LimitExceededError(
                f"making the session on {self._named} passed the time limit of "
                f"{time_limit_text(self._limits.timeout_s)}{_while(self._worker)}",
                limit="time",
            )

    def check_allocation(self, nbytes: int) -> None:
        limit = self._limits.memory_limit_nbytes
        if limit is not None and nbytes > limit + self._allowance_nbytes:
            raise LimitExceededError(
                f"making the session on {self._named} takes {amount_text(nbytes)}, which passes the"
                f" memory limit of {limit_text(limit)} and {nbytes_text(self._allowance_nbytes)}"
                f" for the model itself{_while(self._worker)}",
                limit="memory",
            )


def _call(worker: Worker, watch: Watched, request: Message) -> Message:
    """Return the worker's reply; end the worker if it passes the limits of ``watch``.

    Raises:
        OrtpkgError: an error that the worker reported.
    """
    stop = partial(worker.kill, "it was ended at its limit")
    reply = run_watched(
        watch, partial(worker.call, request), stop, resident_nbytes=worker.resident_nbytes
    )
    for name, level, text in reply.header.get("logged", ()):
        logging.getLogger(name).log(level, "%s", text)
    if "raised" in reply.header:
        error = load_value(reply.buffers[0])
        raise (
            error
            if isinstance(error, OrtpkgError)
            else ValueError("it told of an error that is none of ours")
        )
    return reply


def _while(worker: Worker) -> str:
    return f"; {quoted(worker.note)[1:-1]}" if worker.note else ""


def _end_text(error: WorkerEndedError, worker: Worker) -> str:
    text = str(error)
    if text.startswith("it was ended by SIGKILL"):
        text = f"{text}, as the system does where memory runs out"
    return f"{text}{_while(worker)}"
