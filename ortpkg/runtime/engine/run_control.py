"""Limits of one run: memory, a deadline, and cancellation by the caller.

There is one object per ``InferenceSession.run``, shared by the frames of its sub-graphs and, in
parallel execution, by threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.foundations.host.memory import machine_memory_nbytes
from ortpkg.foundations.quantities import amount_text, limit_text, time_limit_text


class RunControl:
    """Limits of one run, and the memory that it uses.

    Attributes:
        is_watched: True if :meth:`check` may raise, or the caller has set a limit; other runs skip
            the call.
        caller_limit_nbytes: the memory limit that the caller has set; None for no limit.
    """

    __slots__ = (
        "_charged",
        "_deadline",
        "_is_terminated",
        "_limit",
        "_lock",
        "_shared",
        "_timeout_s",
        "caller_limit_nbytes",
        "is_watched",
    )

    def __init__(
        self,
        *,
        memory_limit_nbytes: int | None = None,
        timeout_s: float | None = None,
        is_terminated: Callable[[], bool] | None = None,
        weight_nbytes: int = 0,
    ) -> None:
        """Create the limits of a run that starts now.

        Args:
            memory_limit_nbytes: most bytes that the run may use, weights included; None for the
                machine's memory.
            timeout_s: most seconds of the run; None for no limit.
            is_terminated: returns True once the caller has ended the run.
            weight_nbytes: size of the model's weights.

        Raises:
            LimitExceededError: the weights alone pass the memory limit.
        """
        self._limit = (
            machine_memory_nbytes() if memory_limit_nbytes is None else memory_limit_nbytes
        )
        self.caller_limit_nbytes = memory_limit_nbytes
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._is_terminated = is_terminated
        self._charged = 0 if memory_limit_nbytes is None else weight_nbytes
        if self._charged > self._limit:
            raise LimitExceededError(
                f"the model's weights take {amount_text(weight_nbytes)}, which passes the run's"
                f" memory limit of {limit_text(self._limit)}",
                limit="memory",
            )
        self._lock = threading.Lock()
        #: Parts that several values hold: identity → number of holders, and bytes.
        self._shared: dict[int, tuple[int, int]] = {}
        # A memory limit is watched too: a native kernel allocates memory without asking.
        self.is_watched = (
            timeout_s is not None or is_terminated is not None or memory_limit_nbytes is not None
        )

    @property
    def is_memory_limited(self) -> bool:
        """True if the caller has set a memory limit."""
        return self.caller_limit_nbytes is not None

    @property
    def time_left_s(self) -> float | None:
        """Seconds until the deadline, at least a moment; None without a deadline."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-3)

    def charge(self, nbytes: int) -> None:
        """Count ``nbytes`` more.

        Raises:
            LimitExceededError: they pass the limit; nothing is counted.
        """
        with self._lock:
            self._check_room(nbytes)
            self._charged += nbytes

    def discharge(self, nbytes: int) -> None:
        """Give back ``nbytes``."""
        with self._lock:
            self._charged -= nbytes

    def charge_shared(self, parts: Mapping[int, int]) -> None:
        """Count the parts (identity → bytes) that no other value of the run holds yet.

        Raises:
            LimitExceededError: they pass the limit; nothing is counted.
        """
        with self._lock:
            new_nbytes = sum(nbytes for part, nbytes in parts.items() if part not in self._shared)
            self._check_room(new_nbytes)
            self._charged += new_nbytes
            for part, nbytes in parts.items():
                uses, _ = self._shared.get(part, (0, 0))
                self._shared[part] = uses + 1, nbytes

    def discharge_shared(self, parts: Iterable[int]) -> None:
        """Give back what :meth:`charge_shared` counted, unless another value holds it."""
        with self._lock:
            for part in parts:
                uses, nbytes = self._shared.pop(part)
                if uses > 1:
                    self._shared[part] = uses - 1, nbytes
                else:
                    self._charged -= nbytes

    def check_allocation(self, nbytes: int) -> None:
        """Raise LimitExceededError if ``nbytes`` more would pass the memory limit."""
        self._check_room(nbytes)

    def _check_room(self, nbytes: int) -> None:
        if self._charged + nbytes > self._limit:
            raise LimitExceededError(
                f"the run asks for {amount_text(nbytes)} beside the {amount_text(self._charged)}"
                f" that it holds, which passes its memory limit of {limit_text(self._limit)}",
                limit="memory",
            )

    def check(self) -> None:
        """Raise CancelledError if the caller ended the run, LimitExceededError if time is up."""
        if self._is_terminated is not None and self._is_terminated():
            raise CancelledError("the run was ended by its caller (RunOptions.terminate)")
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._timeout_s is not None, "a deadline comes of it"
            limit = time_limit_text(self._timeout_s)
            raise LimitExceededError(f"the run passed its time limit of {limit}", limit="time")
