"""What runs in a worker in place of a native library, and fails as FAULTY_BACKEND says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ortpkg.foundations.isolation.worker import Message


def open_backend(**_arguments: Any) -> Callable[[Message], Message]:
    return _answer


def _answer(_request: Message) -> Message:
    fault = os.environ["FAULTY_BACKEND"]
    if fault == "abort":
        os.abort()
    if fault == "hang":
        time.sleep(600)
    if fault == "exit":
        os._exit(0)
    raise RuntimeError("driver is in a mood")
