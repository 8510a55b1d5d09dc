"""Where the user's trust policy lies; nobody reads it here, so that asking costs nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from ortpkg.host.directories import config_directory

POLICY_ENVIRONMENT = "ORTPKG_TRUST_POLICY"
_FILE = "trust.toml"
_in_use: ContextVar[Path | None] = ContextVar("_in_use", default=None)


@contextlib.contextmanager
def policy_in_use(file: Path | None) -> Iterator[None]:
    """While this lasts, the policy in ``file``, if any is given, holds for this thread.

    For a command that is told which; sessions deep inside of it ask.
    """
    token = _in_use.set(file if file is not None else _in_use.get())
    try:
        yield
    finally:
        _in_use.reset(token)


def policy_file() -> Path | None:
    """The policy that holds here.

    That of :func:`policy_in_use`, else what ``ORTPKG_TRUST_POLICY`` names, else ``trust.toml`` in
    the folder of settings where that is there. None where none of them is there.
    """
    if (file := _in_use.get()) is not None:
        return file
    if named := os.environ.get(POLICY_ENVIRONMENT):
        return Path(named)
    default = config_directory() / _FILE
    return default if os.path.lexists(default) else None
