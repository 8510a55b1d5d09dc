"""TOML files that people write, under a limit of size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ortpkg.documents.json_documents import read_bytes
from ortpkg.errors import PackageFormatError, UsageError, quoted

#: Larger than any file that somebody wrote.
_MOST_NBYTES = 1 << 20
#: ``a.b.c...``: the time that tomllib takes for a key grows with the square of its parts.
_LONG_KEY = re.compile(
    rb"""(?<![\w"'-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){64}"""
)


def read_toml(
    path: Path, *, called: str, mention: re.Pattern[bytes] | None = None
) -> dict[str, Any] | None:
    """What the file says; None where nothing in it matches ``mention``.

    UsageError, which calls the file ``called``, where it cannot be read.
    """
    try:
        data = read_bytes(path, document=called, most_nbytes=_MOST_NBYTES)
    except PackageFormatError as error:
        raise UsageError(f"{called} {error.findings[0].message}") from error
    if mention is not None and not mention.search(data):
        return None
    if found := _LONG_KEY.search(data):
        line = data.count(b"\n", 0, found.start()) + 1
        raise UsageError(f"{called} has a key of more than 64 parts in line {line}")
    import tomllib  # only where there is something to read

    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and TOMLDecodeError, too
        raise UsageError(f"{called} is no TOML: {quoted(error)}") from error
