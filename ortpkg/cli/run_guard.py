"""Ends ``ortpkg run`` where a native library in this process does not: at a limit, and at Ctrl-C.

While a library computes, Python's own handler of Ctrl-C has to wait for it; the system's wake-up
descriptor does not.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ortpkg.authoring.opening import remove_temporary_folders
from ortpkg.cli.rendering import Output, print_error
from ortpkg.errors import CancelledError, OrtpkgError

if TYPE_CHECKING:
    from ortpkg.session.options import RunOptions


@contextmanager
def guarded(run_options: RunOptions, output: Output) -> Iterator[None]:
    """Ends runs with ``run_options`` in time: asks the library to stop, then ends this process.

    It says why, as for any error, and ends with the error's exit code.
    """
    from ortpkg.isolation.run_watch import last_resort  # sessions load it

    with (
        last_resort(lambda error: end_process(error, output)),
        _terminates_at_interrupt(run_options),
    ):
        yield


def end_process(error: OrtpkgError, output: Output) -> None:
    """Ends this process as ``error`` would, also from another thread."""
    remove_temporary_folders()
    with suppress(Exception):  # whatever becomes of the streams, the process ends
        if isinstance(error, CancelledError):
            output.note("cancelled")
        else:
            print_error(error, output)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(error.exit_code)


@contextmanager
def _terminates_at_interrupt(run_options: RunOptions) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say where signals go
        return
    ours, systems = socket.socketpair()
    systems.setblocking(False)
    before = signal.set_wakeup_fd(systems.fileno(), warn_on_full_buffer=False)
    threading.Thread(
        target=_terminate, args=(ours, run_options), name="ortpkg-interrupts", daemon=True
    ).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        systems.close()  # ends the thread, which closes its own


def _terminate(source: socket.socket, run_options: RunOptions) -> None:
    with source:
        while numbers := source.recv(16):
            if signal.SIGINT in numbers:
                run_options.terminate = True
