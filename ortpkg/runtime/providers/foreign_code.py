"""Calls into plug-ins' code: errors become ours, prints go to standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from ortpkg.foundations.errors import ExecutionProviderError, OrtpkgError, quoted
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.foundations.host.turns import uninterrupted

#: Called with the task of a plug-in while its code runs, and with "" afterwards.
_LISTENERS: list[Callable[[str], None]] = []


def tell_foreign_code(listener: Callable[[str], None]) -> None:
    """Call ``listener`` with each task of a plug-in: "AcmeExecutionProvider was to compile"."""
    _LISTENERS.append(listener)


def _tell(doing: str) -> None:
    for listener in _LISTENERS:
        listener(doing)


@contextlib.contextmanager
def foreign_code(ep_name: str, doing: str) -> Iterator[None]:
    """Wrap a call into a plug-in.

    Every exception, SystemExit too, becomes an ExecutionProviderError. Passed on unchanged are
    ortpkg's own errors, KeyboardInterrupt, and exceptions that a signal handler raised. Output of
    Python code goes to standard error, because standard output may be a document.

    Args:
        ep_name: name of the execution provider.
        doing: task of the plug-in, e.g. "make an execution provider".
    """
    presence = threading.Lock()
    try:
        with presence:
            _prints_to_stderr.begin(presence)
            with _as_our_errors(ep_name, doing):
                yield
    finally:
        uninterrupted(_prints_to_stderr.settle)


@contextlib.contextmanager
def _as_our_errors(ep_name: str, doing: str) -> Iterator[None]:
    _tell(f"{ep_name} was to {doing}")
    try:
        yield
        _tell("")
    except (OrtpkgError, KeyboardInterrupt):
        raise
    except BaseException as error:
        pass_on_handlers_error(error)
        description = f"{type(error).__name__}: {error}"
        raise ExecutionProviderError(
            f"{ep_name} failed to {doing}: {quoted(description)}", ep_name=ep_name
        ) from error


class _PrintsToStderr:
    """Replacement of ``sys.stdout`` by ``sys.stderr`` as long as any thread is inside.

    Several threads may be inside and leave in any order. A thread is inside while its own lock is
    held, so that an interrupt cannot leave it inside for ever
    (:mod:`ortpkg.foundations.host.turns`).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: list[threading.Lock] = []
        self._stdout: TextIO | None = None

    def begin(self, presence: threading.Lock) -> None:
        """Divert standard output as long as the lock ``presence`` is held."""
        with self._lock:
            self._inside.append(presence)
            if self._stdout is None:
                self._stdout, sys.stdout = sys.stdout, sys.stderr

    def settle(self) -> None:
        """Restore standard output if no thread is inside any more."""
        with self._lock:
            self._inside[:] = [presence for presence in self._inside if presence.locked()]
            if not self._inside and self._stdout is not None:
                sys.stdout, self._stdout = self._stdout, None


_prints_to_stderr = _PrintsToStderr()
