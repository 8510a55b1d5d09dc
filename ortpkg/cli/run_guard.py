"""Ends ``ortpkg run`` at a limit or Ctrl-C, even if a native library in this process does not stop.

While a library computes, Python's own handler of Ctrl-C must wait for it; the system's wake-up
descriptor need not.
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
from ortpkg.foundations.errors import CancelledError, OrtpkgError

if TYPE_CHECKING:
    from ortpkg.runtime.session.options import RunOptions


@contextmanager
def guarded(run_options: RunOptions, output: Output) -> Iterator[None]:
    """Stop runs with ``run_options`` in time.

    The library is asked first. If that does not help, this process ends with the message and exit
    code of the error.
    """
    from ortpkg.foundations.isolation.run_watch import last_resort  # sessions load it

    with (
        last_resort(lambda error: end_process(error, output)),
        _terminates_at_interrupt(run_options),
    ):
        yield


def end_process(error: OrtpkgError, output: Output) -> None:
    """End this process as ``error`` would, also from another thread."""
    remove_temporary_folders()
    with suppress(Exception):  # the process ends whatever happens to the streams
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
        yield  # only the main thread may redirect signals
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
        systems.close()  # ends the thread, which closes its own socket


def _terminate(source: socket.socket, run_options: RunOptions) -> None:
    with source:
        while numbers := source.recv(16):
            if signal.SIGINT in numbers:
                run_options.terminate = True
