"""Number of times, and pauses after which, a request is repeated."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

#: Statuses that mean "later" (RFC 9110, 15.5 and 15.6; RFC 6585, 4).
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of repetition.

    Attributes:
        most_tries: Tries of one request, including the first.
        most_connection_tries: Tries if no connection could be established, mostly because of a
            wrong name or port.
        first_pause_s: Pause before the second try in seconds. Each further pause is twice as long;
            up to half of it is random, so that a fleet does not come back all at once.
        most_pause_s: Longest pause of ours.
        most_waiting_s: Longest time of all pauses of one request together, including those that a
            server asks for. A request whose failed tries took longer is not repeated.
    """

    most_tries: int = 6
    most_connection_tries: int = 3
    first_pause_s: float = 0.5
    most_pause_s: float = 20.0
    most_waiting_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Source of time; tests replace it."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


class Retries:
    """Remaining tries of one request."""

    def __init__(self, policy: RetryPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._tries = 0
        self._waited_s = 0.0

    def wait(self, *, asked_s: float | None = None, is_unconnected: bool = False) -> bool:
        """Pause before the next try; return False at once if there should be none.

        Args:
            asked_s: Time that the server asks to wait, in seconds.
            is_unconnected: True if no connection was established.
        """
        self._tries += 1
        policy = self._policy
        most_tries = policy.most_connection_tries if is_unconnected else policy.most_tries
        pause_s = min(policy.most_pause_s, policy.first_pause_s * 2.0 ** (self._tries - 1))
        pause_s *= random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
        pause_s = max(pause_s, asked_s or 0.0)
        if self._tries >= most_tries or self._waited_s + pause_s > policy.most_waiting_s:
            return False
        self._waited_s += pause_s
        self._clock.sleep(pause_s)
        return True

    def progressed(self) -> None:
        """Count the tries from zero again, because the last one made progress.

        Waiting time still adds up.
        """
        self._tries = 0


def retry_after_s(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3); None without a valid one."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
