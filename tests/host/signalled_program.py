"""A program that is signalled while it computes: ``python -m tests.host.signalled_program CASE``.

In a process of its own: libraries that tests of others load change how signals are delivered.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from typing import Any

from ortpkg.foundations.errors import RunError
from ortpkg.foundations.host.signal_handlers import (
    call_with_handlers_errors,
    raised_by_signal_handler,
)


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


def compute() -> None:
    signal.raise_signal(signal.SIGUSR1)


def raised_by(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except (Deadline, SystemExit, RunError) as error:
        return error
    raise AssertionError("nothing was raised")


def run() -> None:
    try:
        compute()
    except BaseException as error:
        raise RunError("node 'a' failed") from error


def main(name: str) -> None:
    signal.signal(signal.SIGUSR1, HANDLERS[name])
    own = raised_by(compute)
    assert isinstance(own, Deadline | SystemExit)
    assert raised_by_signal_handler(own) is own

    signal.signal(signal.SIGUSR1, HANDLERS[name])
    assert isinstance(raised_by(lambda: call_with_handlers_errors(run)), Deadline | SystemExit)


def handle_an_earlier_one() -> None:
    """While an exception of a handler is handled, an error of ours stays ours."""
    signal.signal(signal.SIGUSR1, by_name)

    def fail() -> None:
        raise RunError("node 'a' failed")

    try:
        compute()
    except Deadline:
        assert isinstance(raised_by(lambda: call_with_handlers_errors(fail)), RunError)


if __name__ == "__main__":
    if sys.argv[1] in HANDLERS:
        main(sys.argv[1])
    else:
        handle_an_earlier_one()
    print("came out")
