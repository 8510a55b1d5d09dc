"""Log of a server: one line for each event on standard error, for people or as JSON.

It contains nothing of the content of requests, only their path, result, duration and size.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ortpkg.foundations.errors import unquoted

_LOGGER = logging.getLogger("ortpkg.scale.serving")
_FIELDS = "ortpkg_fields"


@contextmanager
def logged(*, is_json: bool, is_quiet: bool = False) -> Iterator[None]:
    """Log events, and warnings of the libraries that serve, to standard error in this context.

    ``is_quiet`` leaves out everything but problems.
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
    """Send all events from now on to ``target``, as lines for people."""
    _LOGGER.handlers[:] = [_Forwarding(target)]
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def log_event(event: str, **fields: Any) -> None:
    """Log an event with its details."""
    _log(logging.INFO, event, fields)


def log_warning(event: str, **fields: Any) -> None:
    """Log something that somebody should look at."""
    _log(logging.WARNING, event, fields)


def log_fault(event: str, error: BaseException, **fields: Any) -> None:
    """Log a fault of the server, with the place in the code where it arose."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    where = (
        ""
        if traceback is None
        else f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
    )
    message = f"{type(error).__name__}: {error}"
    _log(logging.ERROR, event, {"error": message, "where": where, **fields})


def _log(level: int, event: str, fields: dict[str, Any]) -> None:
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, event, extra={_FIELDS: fields})


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a JSON object on one line."""
        fields = getattr(record, _FIELDS, None)
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if fields is None:
            return json.dumps({**entry, "event": "log", "logger": record.name, **_message(record)})
        return json.dumps({**entry, "event": record.msg, **fields}, default=str)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a line for people, without control characters for a terminal."""
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = getattr(record, _FIELDS, None)
        if fields is None:
            return f"{at} {record.name}: {unquoted(_message(record)['message'])}"
        return f"{at} {_line(record.msg, fields)}"


class _Forwarding(logging.Handler):
    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        """Log the event as one line of text to the target logger."""
        self._target.log(record.levelno, "%s", _line(record.msg, getattr(record, _FIELDS, {})))


def _line(event: str, fields: dict[str, Any]) -> str:
    details = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
    return f"{event} {details}".rstrip()


def _message(record: logging.LogRecord) -> dict[str, str]:
    error = record.exc_info[1] if record.exc_info else None
    message = record.getMessage() if error is None else f"{record.getMessage()}: {error!r}"
    return {"message": message}


def _shown(value: object) -> str:
    text = unquoted(value)
    return repr(text) if " " in text or not text else text
