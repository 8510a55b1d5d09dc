"""Limits that several runs share: the steps of a pipeline, or the samples of a package."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.foundations.quantities import amount_text, limit_text, time_limit_text


class SharedRunOptions:
    """Run options for one run after another, which share their limits.

    A run reads the remaining time as ``timeout_s``, and as ``memory_limit_nbytes`` what the values
    kept between runs leave of the limit. Everything else is read from the caller's options, so that
    setting ``terminate`` there ends the current run.

    Args:
        options: The caller's :class:`~ortpkg.RunOptions`; the clock starts now.

    Attributes:
        held_nbytes: Size of the values kept between runs; set by whoever keeps them.
    """

    def __init__(self, options: Any) -> None:
        self._options = options
        self._timeout_s: float | None = options.timeout_s
        self._deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        self.held_nbytes = 0

    @classmethod
    def of(cls, options: Any) -> SharedRunOptions:
        """Return ``options`` if they are shared already, else shared ones made from them."""
        return options if isinstance(options, cls) else cls(options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._options, name)

    @property
    def timeout_s(self) -> float | None:
        """Remaining seconds.

        Raises:
            LimitExceededError: The time is up.
        """
        if self._deadline is None:
            return None
        left_s: float = self._deadline - time.monotonic()
        if left_s <= 0:
            raise LimitExceededError(self._late(), limit="time")
        return left_s

    @property
    def memory_limit_nbytes(self) -> int | None:
        """Remaining bytes.

        Raises:
            LimitExceededError: The memory is used up.
        """
        limit: int | None = self._options.memory_limit_nbytes
        if limit is None:
            return None
        if self.held_nbytes >= limit:
            raise LimitExceededError(
                f"the values kept between runs take {amount_text(self.held_nbytes)}, "
                f"which passes the memory limit of {limit_text(limit)}",
                limit="memory",
            )
        return limit - self.held_nbytes

    def check(self) -> None:
        """Raise CancelledError or LimitExceededError if the next run must not start."""
        if self._options.terminate:
            raise CancelledError("the run was ended by its caller (RunOptions.terminate)")
        _ = (self.timeout_s, self.memory_limit_nbytes)

    @contextmanager
    def whole_time(self) -> Iterator[None]:
        """Name the limit of all runs together if one of them exceeds its remaining time."""
        try:
            yield
        except LimitExceededError as error:
            if error.limit != "time" or self._timeout_s is None:
                raise
            raise LimitExceededError(
                self._late(), limit="time", node_name=error.node_name
            ) from error

    def _late(self) -> str:
        assert self._timeout_s is not None, "a deadline comes of it"
        return f"the runs passed their time limit of {time_limit_text(self._timeout_s)} together"
