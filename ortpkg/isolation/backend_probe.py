"""Ask a backend what it has, in a child process, and remember the answer as long as nothing it depends on changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ortpkg.devices.fact_cache import read_fact, write_fact
from ortpkg.errors import ExecutionProviderError
from ortpkg.isolation.child import ChildOutcome, call_in_child

#: A first load of a backend with a cold disk takes seconds; one that hangs must not hang us.
PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What a backend said; ``value`` is None where it failed, and ``failure`` says how."""

    value: Any = None
    failure: str = ""

    def require(self, ep_name: str) -> Any:
        """The value; ExecutionProviderError with the reason where the backend failed."""
        if self.failure:
            raise ExecutionProviderError(f"the library behind {ep_name} failed: {self.failure}", ep_name=ep_name)
        return self.value


#: Answers of this process, failures included, so that a backend that hangs costs its timeout once.
_ANSWERS: dict[str, ProbeAnswer] = {}


def ask_backend(
    function: str,
    arguments: Mapping[str, Any],
    *,
    fingerprint: Mapping[str, object],
    timeout_s: float = PROBE_TIMEOUT_S,
) -> ProbeAnswer:
    """The answer of ``"module:function"``, from the fact cache where ``fingerprint`` (all it depends on) is the same.

    A failure is remembered within this process only: the next one asks again.
    """
    key = {"function": function, "arguments": dict(arguments), "fingerprint": dict(fingerprint)}
    text = json.dumps(key, sort_keys=True)
    if text not in _ANSWERS:
        _ANSWERS[text] = _ask(function, arguments, key, timeout_s)
    return _ANSWERS[text]


def _ask(function: str, arguments: Mapping[str, Any], key: Mapping[str, object], timeout_s: float) -> ProbeAnswer:
    kind = function.partition(":")[0].rpartition(".")[2]
    known = read_fact(kind, key)
    if known is not None:
        return ProbeAnswer(value=known)
    result = call_in_child(function, arguments, timeout_s=timeout_s)
    if result.outcome is not ChildOutcome.DONE:
        return ProbeAnswer(failure=result.reason)
    if result.value is not None:
        write_fact(kind, key, result.value)
    return ProbeAnswer(value=result.value)
