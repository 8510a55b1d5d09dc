"""The log of a server: one line an event on standard error, for people or as JSON.

Nothing of what requests hold is in it: what is told of them is where they went, what became of
them, how long that took and how many bytes it was.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ortpkg.errors import unquoted

_LOGGER = logging.getLogger("ortpkg.serving")
_FIELDS = "ortpkg_fields"


@contextmanager
def logged(*, is_json: bool, is_quiet: bool = False) -> Iterator[None]:
    """While this lasts, events and warnings of the libraries that serve go to standard error.

    ``is_quiet``: only what went wrong.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if is_json else _Lines())
    root = logging.getLogger()
    before, level = root.handlers[:], _LOGGER.level
    root.handlers[:] = [handler]
    _LOGGER.setLevel(logging.WARNING if is_quiet else logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        _LOGGER.setLevel(level)


def forward_events(target: logging.Logger) -> None:
    """From now on ``target`` has the events as lines for people."""
    _LOGGER.handlers[:] = [_Forwarding(target)]
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def log_event(event: str, **fields: Any) -> None:
    """Logs what happened; ``fields`` say more of it."""
    _log(logging.INFO, event, fields)


def log_warning(event: str, **fields: Any) -> None:
    """Logs what somebody should look at."""
    _log(logging.WARNING, event, fields)


def log_fault(event: str, error: BaseException, **fields: Any) -> None:
    """Logs a fault of ours, with the place in the code where it arose."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    told = f"{type(error).__name__}: {error}"
    _log(logging.ERROR, event, {"error": told, "where": where, **fields})


def _log(level: int, event: str, fields: dict[str, Any]) -> None:
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, event, extra={_FIELDS: fields})


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """A JSON object in one line."""
        own = getattr(record, _FIELDS, None)
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if own is None:
            return json.dumps({**told, "event": "log", "logger": record.name, **_message(record)})
        return json.dumps({**told, "event": record.msg, **own}, default=str)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """A line for people, in which nothing steers a terminal."""
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        own = getattr(record, _FIELDS, None)
        if own is None:
            return f"{at} {record.name}: {unquoted(_message(record)['message'])}"
        return f"{at} {_line(record.msg, own)}"


class _Forwarding(logging.Handler):
    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        """Logs the event, as one line of text, to the logger that it is forwarded to."""
        self._target.log(record.levelno, "%s", _line(record.msg, getattr(record, _FIELDS, {})))


def _line(event: str, fields: dict[str, Any]) -> str:
    told = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
    return f"{event} {told}".rstrip()


def _message(record: logging.LogRecord) -> dict[str, str]:
    error = record.exc_info[1] if record.exc_info else None
    told = record.getMessage() if error is None else f"{record.getMessage()}: {error!r}"
    return {"message": told}


def _shown(value: object) -> str:
    text = unquoted(value)
    return repr(text) if " " in text or not text else text
