"""Runs in the background whose outcome is handed to a callback."""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.runtime.kernels.op_kernel import Value

#: Called with the outputs, the caller's data, and an error text that is "" where the run succeeded.
AsyncCallback = Callable[[Sequence[Value], Any, str], None]

#: Marks threads that call back: such a thread cannot wait for itself.
_calling_back = threading.local()


class AsyncRuns:
    """Background runs of one session; threads start with the first run.

    A thread pool of the standard library does the work. A thread that receives no signals owns the
    pool (:mod:`ortpkg.runtime.engine.helper_threads` explains why).
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Start anew in a forked process, which does not have the parent's threads."""
        self._made_in = os.getpid()
        self._calls: _Calls = SimpleQueue()
        self._serving = threading.Lock()
        self._is_used = False
        self._end = weakref.finalize(self, self._calls.put, None)
        self._end.atexit = False

    def submit(
        self, run: Callable[[], Sequence[Value]], callback: AsyncCallback, user_data: Any
    ) -> None:
        """Call ``run`` in another thread, then ``callback(outputs, user_data, error)``."""
        if self._made_in != os.getpid():
            self._forget()
        self._is_used = True
        self._tell(partial(_run_and_call, run, callback, user_data)).get()

    def shutdown(self) -> None:
        """Wait for all runs.

        Called from a callback, return at once: the other runs then end by themselves.
        """
        if self._is_used and self._made_in == os.getpid():
            ended = self._tell(None)
            if not getattr(_calling_back, "is_true", False):
                ended.get()

    def _tell(self, call: Callable[[], object] | None) -> SimpleQueue[None]:
        """Have the thread begin ``call``, or end all calls if it is None.

        Return a queue that gets an item once it has begun.
        """
        if not self._serving.locked():
            _thread.start_new_thread(_serve, (self._calls, self._serving))
        begun: SimpleQueue[None] = SimpleQueue()
        self._calls.put((call, begun))
        return begun


#: Messages to the thread: a call to begin (None: end all calls) and a queue that gets
#: an item when it has begun; None ends the thread.
_Calls = SimpleQueue[tuple[Callable[[], object] | None, SimpleQueue[None]] | None]


def _serve(calls: _Calls, serving: threading.Lock) -> None:
    if not serving.acquire(blocking=False):
        return  # an interrupt made another thread start
    threads = ThreadPoolExecutor(thread_name_prefix="ortpkg-run-async")
    while (message := calls.get()) is not None:
        call, begun = message
        if call is None:
            threads.shutdown()
            threads = ThreadPoolExecutor(thread_name_prefix="ortpkg-run-async")
        else:
            threads.submit(call)
        begun.put(None)
        del message, call  # and with them the session
    threads.shutdown(wait=False)


def _run_and_call(
    run: Callable[[], Sequence[Value]], callback: AsyncCallback, user_data: Any
) -> None:
    _calling_back.is_true = True  # this thread belongs to the pool, for good
    try:
        results = run()
    except Exception as error:  # noqa: BLE001 - nobody else sees it: the caller waits for the callback
        callback([], user_data, str(error) if isinstance(error, OrtpkgError) else repr(error))
    else:
        callback(results, user_data, "")
