"""Read TOML files that people write, up to a limit of size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.json_documents import read_bytes
from ortpkg.foundations.errors import PackageFormatError, UsageError, quoted

#: Larger than any file written by hand.
_MOST_NBYTES = 1 << 20
#: ``a.b.c...``: the time that tomllib takes for a key grows with the square of its parts.
_LONG_KEY = re.compile(
    rb"""(?<![\w"'-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){64}"""
)


def read_toml(
    path: Path, *, name: str, mention: re.Pattern[bytes] | None = None
) -> dict[str, Any] | None:
    """Return the content of a file; None if nothing in it matches ``mention``.

    Args:
        path: the file.
        name: of the file, for messages.
        mention: pattern of bytes.

    Raises:
        UsageError: it cannot be read, or is not TOML.
    """
    try:
        data = read_bytes(path, document=name, most_nbytes=_MOST_NBYTES)
    except PackageFormatError as error:
        raise UsageError(f"{name} {error.findings[0].message}") from error
    if mention is not None and not mention.search(data):
        return None
    if long_key := _LONG_KEY.search(data):
        line = data.count(b"\n", 0, long_key.start()) + 1
        raise UsageError(f"{name} has a key of more than 64 parts in line {line}")
    import tomllib  # only needed if there is something to parse

    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and TOMLDecodeError, too
        raise UsageError(f"{name} is no TOML: {quoted(error)}") from error
