"""Ask a backend for its devices in a child process, and cache the answer until its inputs change.

A backend that hangs is remembered for a few minutes, because it would cost its whole timeout in
every process. The reason says so, and how to ask again. That a library refuses to load, or that its
package raises or exits, is remembered until something changes that the refusal depends on. Other
failures cost no more than an answer; the next process asks again and may find them fixed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from ortpkg.foundations.errors import ExecutionProviderError, UsageError, quoted
from ortpkg.foundations.quantities import parse_duration_s
from ortpkg.foundations.storage.fact_cache import prune_facts, read_fact, write_fact
from ortpkg.foundations.variables import flag_variable

#: Loading a backend from a cold disk takes seconds; one that hangs must not hang us.
PROBE_TIMEOUT_S = 30.0
#: Time that a hang is remembered; a machine that was only busy can recover meanwhile.
HANG_LIFETIME_S = 180.0
TIMEOUT_VARIABLE = "ORTPKG_PROBE_TIMEOUT"
RETRY_VARIABLE = "ORTPKG_PROBE_AGAIN"
_MOST_KEPT = 32
#: Key of a remembered failure of the child.
_FAILED = "failed"
_REFUSED_KIND = "refusal_"
_MOST_TIMEOUT_S = 3600


class ProbeAnswer(NamedTuple):
    """Answer of a backend: ``value``, or None with a ``failure``.

    ``is_hang`` if it did not answer.
    """

    value: Any = None
    failure: str = ""
    is_hang: bool = False

    def require(self, ep_name: str) -> Any:
        """Return the value; raise ExecutionProviderError with the reason if the backend failed."""
        if self.failure:
            raise ExecutionProviderError(
                f"the library behind {ep_name} failed: {self.failure}", ep_name=ep_name
            )
        return self.value


#: Answers of this process, including failures, so that a hanging backend costs its timeout once.
_ANSWERS: dict[str, ProbeAnswer] = {}
_uses_memory_only: ContextVar[bool] = ContextVar("_uses_memory_only", default=False)
_asks_again: ContextVar[bool] = ContextVar("_asks_again", default=False)
_doubts_refusals: ContextVar[bool] = ContextVar("_doubts_refusals", default=False)


class RefusalRules(NamedTuple):
    """Rules for remembering refusals: answers that are refusals, and failures that are not hangs.

    Attributes:
        reason_of: Takes an answer; returns the reason if it is a refusal, else "".
        is_lasting: Takes a reason; returns True if the next process would be refused, too.
        depends_on: Returns JSON that changes when a refusal may no longer apply. Called only if no
            other answer is remembered.
    """

    reason_of: Callable[[Any], str]
    is_lasting: Callable[[str], bool]
    depends_on: Callable[[], Any]


def ask_backend(
    function: str,
    arguments: Mapping[str, Any],
    *,
    fingerprint: Mapping[str, object],
    timeout_s: float | None = None,
    is_kept: Callable[[Any], bool] = lambda _value: True,
    refusals: RefusalRules | None = None,
) -> ProbeAnswer:
    """Call a function in a child process, or return its remembered answer.

    A backend that hangs is not asked again for three minutes, by later processes either, unless
    ``ORTPKG_PROBE_AGAIN`` is set.

    Args:
        function: Function as ``"module:function"``.
        arguments: Keyword arguments; JSON.
        fingerprint: JSON; an answer is remembered as long as this stays the same.
        timeout_s: Limit of the call; default: :func:`probe_timeout_s`.
        is_kept: Takes an answer; returns True if later processes may use it.
        refusals: Answers that are refusals, and what else these depend on.
    """
    if refusals is not None:
        asks = partial(ask_backend, function, arguments, timeout_s=timeout_s)
        key = {"function": function, "arguments": dict(arguments), "fingerprint": dict(fingerprint)}
        return _ask_with_refusals(asks, key, is_kept, refusals)
    key = {"function": function, "arguments": dict(arguments), "fingerprint": dict(fingerprint)}
    text = json.dumps(key, sort_keys=True)
    limit_s = probe_timeout_s() if timeout_s is None else timeout_s
    if _uses_memory_only.get():
        return ProbeAnswer(value=read_fact(_kind_of(function), key))
    if _asks_again.get():
        write_fact(_kind_of(function), key, None)
        _ANSWERS[text] = _ask_child(function, arguments, key, limit_s, is_kept)
    elif text not in _ANSWERS:
        _ANSWERS[text] = _ask(function, arguments, key, limit_s, is_kept)
    return _ANSWERS[text]


def _ask_with_refusals(
    asks: Callable[..., ProbeAnswer],
    key: Mapping[str, Any],
    is_kept: Callable[[Any], bool],
    refusals: RefusalRules,
) -> ProbeAnswer:
    """Return the answer of :func:`ask_backend`, and remember it if it is a lasting refusal."""
    with asking_nobody():
        remembered = asks(fingerprint=key["fingerprint"])
    if remembered.value is not None and not _asks_again.get():
        return remembered
    kind = f"{_REFUSED_KIND}{_kind_of(key['function'])}"
    key = {**key, "depends_on": refusals.depends_on()}
    refused = read_fact(kind, key)
    is_doubted = _doubts_refusals.get() or flag_variable(RETRY_VARIABLE)
    if _uses_memory_only.get() or (refused is not None and not (is_doubted or _asks_again.get())):
        return _remembered_refusal(refused)
    answer = asks(
        fingerprint=key["fingerprint"],
        is_kept=lambda value: is_kept(value) and not refusals.reason_of(value),
    )
    reason = answer.failure or refusals.reason_of(answer.value)
    is_remembered = bool(reason) and not answer.is_hang and refusals.is_lasting(reason)
    if is_remembered or refused is not None:
        fact = {_FAILED: answer.failure} if answer.failure else answer.value
        write_fact(kind, key, fact if is_remembered else None, keep=_MOST_KEPT)
    return answer


def _remembered_refusal(fact: Any) -> ProbeAnswer:
    """Return the answer that a fact of :func:`_ask_with_refusals` keeps."""
    if isinstance(fact, dict) and isinstance(fact.get(_FAILED), str):
        return ProbeAnswer(failure=f"{fact[_FAILED]}; ortpkg devices asks it again")
    return ProbeAnswer(value=fact)


@contextlib.contextmanager
def doubting_refusals() -> Iterator[None]:
    """Ask libraries again that refused before, in this context.

    It is for commands that show devices: their user may just have installed what was missing. All
    remembered refusals are forgotten, because one library may have refused several questions.
    """
    prune_facts(f"{_REFUSED_KIND}*", keep=0)
    with _set_within(_doubts_refusals):
        yield


def asking_anew() -> AbstractContextManager[None]:
    """Return a context in which backends are asked again; new answers are remembered."""
    return _set_within(_asks_again)


def asking_nobody() -> AbstractContextManager[None]:
    """Return a context in which all answers come from memory, or are None."""
    return _set_within(_uses_memory_only)


@contextlib.contextmanager
def _set_within(flag: ContextVar[bool]) -> Iterator[None]:
    token = flag.set(True)
    try:
        yield
    finally:
        flag.reset(token)


def probe_timeout_s() -> float:
    """Return the limit of one probe in seconds: ``ORTPKG_PROBE_TIMEOUT`` (5s, 2min), else 30.

    Raises:
        UsageError: The variable is not a duration, or is above an hour.
    """
    text = os.environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return PROBE_TIMEOUT_S
    timeout_s = parse_duration_s(text, TIMEOUT_VARIABLE)
    if not 0 < timeout_s <= _MOST_TIMEOUT_S:
        raise UsageError(
            f"{TIMEOUT_VARIABLE} is {quoted(text)}; it must be more than 0, at most an hour"
        )
    return timeout_s


def _ask(
    function: str,
    arguments: Mapping[str, Any],
    key: Mapping[str, object],
    timeout_s: float,
    is_kept: Callable[[Any], bool],
) -> ProbeAnswer:
    kind = _kind_of(function)
    asks_again = flag_variable(RETRY_VARIABLE)
    cached = read_fact(kind, key)
    if cached is not None:
        return ProbeAnswer(value=cached)
    remembered = None if asks_again else _remembered_hang(kind, key)
    if remembered is not None:
        return remembered
    return _ask_child(function, arguments, key, timeout_s, is_kept)


def _ask_child(
    function: str,
    arguments: Mapping[str, Any],
    key: Mapping[str, object],
    timeout_s: float,
    is_kept: Callable[[Any], bool],
) -> ProbeAnswer:
    # imported only if nothing is remembered
    from ortpkg.foundations.isolation.child import ChildOutcome, call_in_child

    kind = _kind_of(function)
    result = call_in_child(function, arguments, timeout_s=timeout_s)
    if result.outcome is not ChildOutcome.DONE:
        is_hang = result.outcome is ChildOutcome.TIMED_OUT
        if is_hang:
            write_fact(_hangs_of(kind), key, {"reason": result.reason, "time_s": _now_s()})
            prune_facts(_hangs_of(kind), keep=_MOST_KEPT)
        return ProbeAnswer(failure=result.reason, is_hang=is_hang)
    if result.value is not None and is_kept(result.value):
        write_fact(kind, key, result.value)
    return ProbeAnswer(value=result.value)


def _remembered_hang(kind: str, key: Mapping[str, object]) -> ProbeAnswer | None:
    """Return the failure of a recent hang, or None."""
    hang = read_fact(_hangs_of(kind), key)
    if not isinstance(hang, dict):
        return None
    reason, time_s = hang.get("reason"), hang.get("time_s")
    if not isinstance(reason, str) or not isinstance(time_s, int | float):
        return None
    age_s = _now_s() - time_s
    if not 0 <= age_s < HANG_LIFETIME_S:  # older, or the clock was set back
        return None
    return ProbeAnswer(
        failure=f"{reason} ({age_s / 60:.0f} min ago; set {RETRY_VARIABLE}=1 to ask it again)",
        is_hang=True,
    )


def _now_s() -> float:
    return time.time()


def _kind_of(function: str) -> str:
    return function.partition(":")[0].rpartition(".")[2]


def _hangs_of(kind: str) -> str:
    return f"hang_{kind}"
