"""Plug-ins' code in this process: its errors become ours, its prints go to standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from ortpkg.errors import ExecutionProviderError, OrtpkgError, quoted

#: Are told, while code of a plug-in runs, what it was asked to do, and "" afterwards.
_LISTENERS: list[Callable[[str], None]] = []


def tell_foreign_code(listener: Callable[[str], None]) -> None:
    """Tells ``listener`` what plug-ins do from now on: "AcmeExecutionProvider was to compile"."""
    _LISTENERS.append(listener)


def _tell(doing: str) -> None:
    for listener in _LISTENERS:
        listener(doing)


@contextlib.contextmanager
def foreign_code(ep_name: str, doing: str) -> Iterator[None]:
    """Around a call into a plug-in.

    Whatever it raises, SystemExit among it, is an ExecutionProviderError; only errors of ours and a
    KeyboardInterrupt stay what they are. What Python code prints goes to standard error, because
    standard output may be a document.

    Args:
        ep_name: the execution provider's.
        doing: what was asked of it, e.g. "make an execution provider".
    """
    with _prints_to_stderr:
        _tell(f"{ep_name} was to {doing}")
        try:
            yield
            _tell("")
        except (OrtpkgError, KeyboardInterrupt):
            raise
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
            raise ExecutionProviderError(
                f"{ep_name} failed to {doing}: {quoted(said)}", ep_name=ep_name
            ) from error


class _PrintsToStderr:
    """``sys.stdout`` is ``sys.stderr`` as long as any thread is inside.

    Several may be, and leave in any order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._stdout: TextIO | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._stdout is not None:
                sys.stdout, self._stdout = self._stdout, None


_prints_to_stderr = _PrintsToStderr()
