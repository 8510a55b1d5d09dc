"""What bounds one run: a memory limit, a deadline, and the caller's wish to end it.

One object per ``InferenceSession.run``, shared by the frames of its sub-graphs and, in parallel
execution, by threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from ortpkg.errors import CancelledError, LimitExceededError
from ortpkg.host.memory import machine_memory_nbytes
from ortpkg.quantities import amount_text, limit_text, time_limit_text


class RunControl:
    """Limits of one run, and what it uses of them.

    Attributes:
        is_watched: whether :meth:`check` can ever raise, or the caller has set a limit; a run that
            is not watched skips the call.
        stated_limit_nbytes: the memory limit that the caller has set; None: there is none.
    """

    __slots__ = (
        "_charged",
        "_deadline",
        "_is_terminated",
        "_limit",
        "_lock",
        "_shared",
        "_timeout_s",
        "is_watched",
        "stated_limit_nbytes",
    )

    def __init__(
        self,
        *,
        memory_limit_nbytes: int | None = None,
        timeout_s: float | None = None,
        is_terminated: Callable[[], bool] | None = None,
        weight_nbytes: int = 0,
    ) -> None:
        """``weight_nbytes`` is the size of the model's weights, which the caller's limit counts.

        LimitExceededError where they alone pass it.
        """
        self._limit = (
            machine_memory_nbytes() if memory_limit_nbytes is None else memory_limit_nbytes
        )
        self.stated_limit_nbytes = memory_limit_nbytes
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
        #: Of parts that several values hold: identity → how often, and its bytes.
        self._shared: dict[int, tuple[int, int]] = {}
        # A limit of memory is watched too: a native kernel takes memory without asking.
        self.is_watched = (
            timeout_s is not None or is_terminated is not None or memory_limit_nbytes is not None
        )

    @property
    def is_memory_limited(self) -> bool:
        """Whether the caller has set a memory limit."""
        return self.stated_limit_nbytes is not None

    @property
    def time_left_s(self) -> float | None:
        """Until its deadline, a moment at least; None where it has none."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-3)

    def charge(self, nbytes: int) -> None:
        """Count ``nbytes`` more.

        LimitExceededError, and nothing counted, where that passes the limit.
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

        LimitExceededError, and nothing counted, where they pass the limit.
        """
        with self._lock:
            new_nbytes = sum(nbytes for part, nbytes in parts.items() if part not in self._shared)
            self._check_room(new_nbytes)
            self._charged += new_nbytes
            for part, nbytes in parts.items():
                uses, _ = self._shared.get(part, (0, 0))
                self._shared[part] = uses + 1, nbytes

    def discharge_shared(self, parts: Iterable[int]) -> None:
        """Give back what :meth:`charge_shared` counted, where nobody else holds it."""
        with self._lock:
            for part in parts:
                uses, nbytes = self._shared.pop(part)
                if uses > 1:
                    self._shared[part] = uses - 1, nbytes
                else:
                    self._charged -= nbytes

    def check_allocation(self, nbytes: int) -> None:
        """Raise LimitExceededError where ``nbytes`` more would pass the memory limit."""
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
