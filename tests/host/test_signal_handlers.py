"""Exceptions of signal handlers are told from those of the code that they interrupt."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ortpkg.errors import RunError
from ortpkg.host.signal_handlers import call_with_handlers_errors, raised_by_signal_handler

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGUSR1")


class Deadline(Exception):
    """A program's own."""


def by_name(_number: int, _frame: object) -> None:
    raise Deadline


def by_any_words(*_words: object) -> None:
    _deeper()


def _deeper() -> None:
    raise Deadline


def as_exit(_number: int, _frame: object) -> None:
    sys.exit(3)


class Handler:
    """A program's own object."""

    def method(self, _number: int, _frame: object) -> None:
        raise Deadline

    def __call__(self, _number: int, _frame: object) -> None:
        raise Deadline


def restoring(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Deadline


HANDLERS: dict[str, Callable[..., Any]] = {
    "function": by_name,
    "any words": by_any_words,
    "exit": as_exit,
    "method": Handler().method,
    "object": Handler(),
    "partial": functools.partial(by_any_words, "more"),
    "that takes itself away": restoring,
}


@pytest.fixture(autouse=True)
def _handler_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def compute() -> None:
    # To this very thread: of a process that has others, any may get a signal, and later.
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_handlers_exception_is_known_and_comes_out_as_it_is(handler: Callable[..., Any]) -> None:
    signal.signal(signal.SIGUSR1, handler)

    with pytest.raises((Deadline, SystemExit)) as seen:
        compute()
    assert raised_by_signal_handler(seen.value) is seen.value
    signal.signal(signal.SIGUSR1, handler)

    def run() -> None:
        try:
            compute()
        except BaseException as error:
            raise RunError("node 'a' failed") from error

    with pytest.raises((Deadline, SystemExit)) as raised:
        call_with_handlers_errors(run)
    assert not isinstance(raised.value, RunError)


def test_what_code_raises_by_itself_is_no_handlers() -> None:
    def fail(_number: int, _frame: object) -> None:
        raise SystemExit(3)

    def run() -> None:
        try:
            fail(1, None)
        except SystemExit as error:
            raise RunError("node 'a' failed") from error

    with pytest.raises(RunError, match="node 'a' failed"):
        call_with_handlers_errors(run)


def test_an_earlier_exception_of_a_handler_is_not_taken_for_a_later_error() -> None:
    signal.signal(signal.SIGUSR1, by_name)

    def run() -> None:
        raise RunError("node 'a' failed")

    def run_while_it_is_handled() -> None:
        try:
            compute()
        except Deadline:
            call_with_handlers_errors(run)

    with pytest.raises(RunError, match="node 'a' failed"):
        run_while_it_is_handled()
