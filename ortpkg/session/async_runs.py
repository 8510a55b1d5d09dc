"""Runs in the background whose outcome is handed to a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ortpkg.errors import OrtpkgError
from ortpkg.kernels.op_kernel import Value

#: Called with the outputs, the caller's data, and an error text that is "" where the run succeeded.
AsyncCallback = Callable[[Sequence[Value], Any, str], None]

#: Whether the current thread is one that calls back; such a thread cannot wait for itself.
_calling_back = threading.local()


class AsyncRuns:
    """One session's; its threads are made for the first of them."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def submit(
        self, run: Callable[[], Sequence[Value]], callback: AsyncCallback, user_data: Any
    ) -> None:
        """Calls ``run`` in another thread, then ``callback(outputs, user_data, error)``."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(thread_name_prefix="ortpkg-run-async")
            self._threads.submit(_run_and_call, run, callback, user_data)

    def shutdown(self) -> None:
        """Waits for all, unless a callback calls it: then what else was begun ends by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=not getattr(_calling_back, "is_true", False))


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
