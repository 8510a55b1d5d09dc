"""``--log-json``: writes records of decisions, one line of JSON each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.selection.matching.decision_log import DecisionLog


@contextmanager
def open_decision_log(target: str | None, *, is_json: bool = False) -> Iterator[DecisionLog | None]:
    """Yield a function that writes records to ``target``: appended to a file, or "-" for stdout.

    It yields None if ``target`` is None.

    Raises:
        UsageError: The file cannot be written, or standard output has other JSON already.
    """
    if target is None:
        yield None
    elif target == "-":
        if is_json:
            raise UsageError("--json and --log-json - both print to standard output: log to a file")
        yield _writer(sys.stdout)
    else:
        try:
            with Path(target).open("a", encoding="utf-8") as file:
                yield _writer(file)
        except OSError as error:
            raise UsageError(f"cannot write {quoted(target)}: {error.strerror or error}") from error


def _writer(file: IO[str]) -> DecisionLog:
    def write(record: dict[str, Any]) -> None:
        # in ASCII, so that no text of a package can control a terminal
        file.write(json.dumps(record) + "\n")

    return write
