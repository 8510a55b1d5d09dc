"""Turns that end with whoever has them, however that is."""

from __future__ import annotations

import threading

import pytest

from ortpkg.foundations.host.turns import Turn, uninterrupted


def test_one_has_the_turn_at_a_time_and_an_interrupt_ends_it() -> None:
    turn, first, second = Turn(), threading.Lock(), threading.Lock()
    with second:
        with pytest.raises(KeyboardInterrupt), first:
            _claim_and_fail(turn, first, second)
        assert turn.claim(second)


def _claim_and_fail(turn: Turn, first: threading.Lock, second: threading.Lock) -> None:
    assert turn.claim(first)
    assert not turn.claim(second)
    raise KeyboardInterrupt


def test_who_waits_for_a_turn_looks_meanwhile_whether_to_go_on() -> None:
    turn, first, second = Turn(), threading.Lock(), threading.Lock()

    def check() -> None:
        raise TimeoutError("enough")

    with first, second:
        turn.claim(first)
        with pytest.raises(TimeoutError, match="enough"):
            turn.take(second, check)
    turn.wait()
    with second:
        turn.take(second, check)


def test_an_end_is_done_in_spite_of_interrupts_which_are_raised_then() -> None:
    interrupts: list[BaseException] = [KeyboardInterrupt("first"), KeyboardInterrupt("second")]
    steps: list[str] = []

    def end() -> None:
        if interrupts:
            raise interrupts.pop(0)
        steps.append("done")

    with pytest.raises(KeyboardInterrupt, match="second"):
        uninterrupted(end)
    assert steps == ["done"]
