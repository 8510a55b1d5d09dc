"""Asking a backend: remembered by everything that the answer depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import ExecutionProviderError, UsageError
from ortpkg.foundations.isolation import backend_probe
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, ask_backend
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult


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
    monkeypatch.setattr("ortpkg.foundations.isolation.child.call_in_child", child)
    return child


def _forget_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_probe, "_ANSWERS", {})


def test_an_answer_is_remembered_by_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    child = _child(monkeypatch, ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]))

    for driver in ("1", "1", "2"):
        assert ask_backend("probe:devices", {}, fingerprint={"driver": driver}).value == ["CPU"]
        _forget_this_process(monkeypatch)

    assert child.calls == 2


_HANG = ChildResult(outcome=ChildOutcome.TIMED_OUT, reason="no answer within 30 s")


def test_a_hang_costs_its_timeout_once_in_a_while_whatever_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = _child(monkeypatch, _HANG, ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]))
    monkeypatch.setattr(backend_probe, "_now_s", lambda: 1_000_000.0)

    first = ask_backend("probe:devices", {}, fingerprint={})
    again = ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    monkeypatch.setattr(backend_probe, "_now_s", lambda: 1_000_060.0)
    next_process = ask_backend("probe:devices", {}, fingerprint={})

    assert first == again == ProbeAnswer(failure="no answer within 30 s", is_hang=True)
    assert (
        next_process.failure
        == "no answer within 30 s (1 min ago; set ORTPKG_PROBE_AGAIN=1 to ask it again)"
    )
    assert child.calls == 1


@pytest.mark.parametrize("later_s", [180.0, -1.0])
def test_a_hang_is_believed_for_three_minutes(
    monkeypatch: pytest.MonkeyPatch, later_s: float
) -> None:
    child = _child(monkeypatch, _HANG, ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]))
    monkeypatch.setattr(backend_probe, "_now_s", lambda: 1_000_000.0)
    ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    monkeypatch.setattr(backend_probe, "_now_s", lambda: 1_000_000.0 + later_s)

    assert ask_backend("probe:devices", {}, fingerprint={}).value == ["CPU"]
    assert child.calls == 2


def test_a_hang_is_asked_again_where_the_user_or_another_driver_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = _child(monkeypatch, _HANG)
    ask_backend("probe:devices", {}, fingerprint={"driver": "1"})
    _forget_this_process(monkeypatch)

    ask_backend("probe:devices", {}, fingerprint={"driver": "2"})
    monkeypatch.setenv("ORTPKG_PROBE_AGAIN", "1")
    ask_backend("probe:devices", {}, fingerprint={"driver": "1"})

    assert child.calls == 3


def test_a_backend_that_fails_and_then_answers_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    _child(monkeypatch, _HANG, ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]))
    monkeypatch.setenv("ORTPKG_PROBE_AGAIN", "1")
    ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    monkeypatch.delenv("ORTPKG_PROBE_AGAIN")

    assert ask_backend("probe:devices", {}, fingerprint={}).value == ["CPU"]


def test_a_crash_is_asked_again_by_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    child = _child(
        monkeypatch,
        ChildResult(outcome=ChildOutcome.CRASHED, reason="it was ended by SIGSEGV"),
        ChildResult(outcome=ChildOutcome.DONE, value=["CPU"]),
    )
    ask_backend("probe:devices", {}, fingerprint={})
    again = ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)

    assert again.failure == "it was ended by SIGSEGV"
    assert ask_backend("probe:devices", {}, fingerprint={}).value == ["CPU"]
    assert child.calls == 2


@pytest.mark.parametrize(
    ("text", "timeout_s"), [("", 30.0), ("2.5", 2.5), (" 90 ", 90.0), ("2min", 120.0)]
)
def test_the_time_limit_can_be_set(
    monkeypatch: pytest.MonkeyPatch, text: str, timeout_s: float
) -> None:
    monkeypatch.setenv("ORTPKG_PROBE_TIMEOUT", text)

    assert backend_probe.probe_timeout_s() == timeout_s


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_time_limit_that_is_none_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ORTPKG_PROBE_TIMEOUT", text)

    with pytest.raises(UsageError, match=rf"ORTPKG_PROBE_TIMEOUT is (no duration: )?'{text}'"):
        backend_probe.probe_timeout_s()


@pytest.mark.parametrize(
    ("text", "asks_again"), [("0", False), ("no", False), ("", False), ("1", True)]
)
def test_asking_again_is_yes_or_no(
    monkeypatch: pytest.MonkeyPatch, text: str, asks_again: bool
) -> None:
    child = _child(monkeypatch, _HANG)
    ask_backend("probe:devices", {}, fingerprint={})
    _forget_this_process(monkeypatch)
    monkeypatch.setenv("ORTPKG_PROBE_AGAIN", text)
    ask_backend("probe:devices", {}, fingerprint={})
    assert child.calls == (2 if asks_again else 1)


def test_a_child_that_cannot_be_started_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_PYTHON", "/no/python")
    assert (
        "ORTPKG_PYTHON is '/no/python': No such file"
        in ask_backend("probe:devices", {}, fingerprint={}).failure
    )


def test_a_child_that_really_hangs_is_ended_after_the_set_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hanging.py").write_text(
        "import time\n\ndef devices():\n    time.sleep(600)\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ORTPKG_PROBE_TIMEOUT", "0.5")

    assert ask_backend("hanging:devices", {}, fingerprint={}).failure == "no answer within 0.5 s"


def test_a_failure_becomes_an_error_that_names_the_provider() -> None:
    with pytest.raises(
        ExecutionProviderError, match="the library behind AcmeExecutionProvider failed: it crashed"
    ):
        ProbeAnswer(failure="it crashed").require("AcmeExecutionProvider")
