"""Location of the user's trust policy; the file is not read here, so that asking is cheap."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from ortpkg.foundations.host.directories import config_directory

POLICY_ENVIRONMENT = "ORTPKG_TRUST_POLICY"
_FILE = "trust.toml"
_in_use: ContextVar[Path | None] = ContextVar("_in_use", default=None)


@contextlib.contextmanager
def policy_in_use(file: Path | None) -> Iterator[None]:
    """Use the policy in ``file``, if given, for this thread in this context.

    It is for commands with an option for the policy; sessions deep inside them ask for it.
    """
    token = _in_use.set(file if file is not None else _in_use.get())
    try:
        yield
    finally:
        _in_use.reset(token)


def policy_file() -> Path | None:
    """Return the file of the trust policy that applies here, or None.

    It is that of :func:`policy_in_use`, else the one in ``ORTPKG_TRUST_POLICY``, else
    ``trust.toml`` in the settings folder if it exists.
    """
    if (file := _in_use.get()) is not None:
        return file
    if named := os.environ.get(POLICY_ENVIRONMENT):
        return Path(named)
    default = config_directory() / _FILE
    return default if os.path.lexists(default) else None
