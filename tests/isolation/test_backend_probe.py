"""Asking a backend: remembered by everything that the answer depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortpkg.errors import ExecutionProviderError
from ortpkg.isolation import backend_probe
from ortpkg.isolation.backend_probe import ProbeAnswer, ask_backend
from ortpkg.isolation.child import ChildOutcome, ChildResult


class _Child:
    """Counts calls and answers as told."""

    def __init__(self, *results: ChildResult) -> None:
        self.results = list(results)
        self.calls = 0

    def __call__(self, function: str, arguments: Any, *, timeout_s: float) -> ChildResult:
        self.calls += 1
        return self.results[min(self.calls, len(self.results)) - 1]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})


def _child(monkeypatch: pytest.MonkeyPatch, *results: ChildResult) -> _Child:
    child = _Child(*results)
    monkeypatch.setattr(backend_probe, "call_in_child", child)
    return child


def _forget_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})


def test_an_answer_is_remembered_by_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    child = _child(monkeypatch, ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]))

    for driver in ("1", "1", "2"):
        assert ask_backend("probe:devices", {}, fingerprint={"driver": driver}).value == ["CPU"]
        _forget_this_process(monkeypatch)

    assert child.calls == 2


def test_a_failure_is_asked_again_by_the_next_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    child = _child(
        monkeypatch,
        ChildResult(outcome=ChildOutcome.TIMED_OUT, reason="no answer within 30 s"),
        ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]),
    )

    first = ask_backend("probe:devices", {}, fingerprint={})
    again = ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    next_process = ask_backend("probe:devices", {}, fingerprint={})

    assert first == again == ProbeAnswer(failure="no answer within 30 s")
    assert next_process.value == ["CPU"]
    assert child.calls == 2


def test_a_failure_becomes_an_error_that_names_the_provider() -> None:
    with pytest.raises(ExecutionProviderError, match="the library behind AcmeExecutionProvider failed: it crashed"):
        ProbeAnswer(failure="it crashed").require("AcmeExecutionProvider")
