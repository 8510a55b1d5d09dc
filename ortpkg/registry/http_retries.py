"""How often, and after which pauses, a request is made again."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

#: Answers that mean "later" (RFC 9110, 15.5 and 15.6; RFC 6585, 4).
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of repetition.

    Attributes:
        most_tries: of one request, the first included.
        most_connection_tries: of them, where there has been no connection at all: mostly a wrong
            name or port.
        first_pause_s: before the second try; each further one is twice as long, and up to half of
            it is left to chance, so that a fleet does not come back all at once.
        most_pause_s: no pause of ours is longer.
        most_waiting_s: all pauses of one request together, those included that a server asks for;
            a request whose failed tries took longer is not made again.
    """

    most_tries: int = 6
    most_connection_tries: int = 3
    first_pause_s: float = 0.5
    most_pause_s: float = 20.0
    most_waiting_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time, which tests make up."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


class Retries:
    """What is left of a policy for one request."""

    def __init__(self, policy: RetryPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._tries = 0
        self._waited_s = 0.0

    def wait(self, *, asked_s: float | None = None, is_unconnected: bool = False) -> bool:
        """Pauses before the next try; False, at once, where there shall be none.

        Args:
            asked_s: how long the server asks to wait.
            is_unconnected: no connection came about.
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
        """The last try brought the work on: tries begin to count anew, waiting does not."""
        self._tries = 0


def retry_after_s(text: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, 10.2.3).

    None where there is none, or it is none.
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        moment = email.utils.parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
