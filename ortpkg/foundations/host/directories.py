"""Folders of this user: caches, records, settings, installed packages.

An environment variable of ours names each, else platformdirs does. None of them need exist yet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ortpkg.foundations.errors import UsageError

CACHE_ENVIRONMENT = "ORTPKG_CACHE_DIR"
CONFIG_ENVIRONMENT = "ORTPKG_CONFIG_DIR"
STATE_ENVIRONMENT = "ORTPKG_STATE_DIR"
STORE_ENVIRONMENT = "ORTPKG_STORE"


def cache_directory() -> Path:
    """Return the folder of files that may be deleted at any time."""
    return Path(_user_directory("cache", CACHE_ENVIRONMENT))


def config_directory() -> Path:
    """Return the folder of the user's settings."""
    return Path(_user_directory("config", CONFIG_ENVIRONMENT))


def state_directory() -> str:
    """Return the folder of what programs remember of a user.

    A str: making a Path takes as long as the whole look at an empty folder during a selection.
    """
    return _user_directory("state", STATE_ENVIRONMENT)


def records_directory() -> str:
    """Return the folder with one file per package that was measured here or failed here."""
    return os.path.join(state_directory(), "records")  # noqa: PTH118 - see state_directory


def has_records() -> bool:
    """Return True if anything may be recorded on this machine; costs one look at a directory."""
    return os.path.isdir(records_directory())  # noqa: PTH112 - see state_directory


def bench_lock_path() -> Path:
    """Return the path of the lock held while something is measured: no two benchmarks overlap."""
    return Path(state_directory()) / "bench.lock"


def store_directory() -> Path:
    """Return the folder of installed packages.

    ``ORTPKG_STORE`` names it; without that, it is ``store`` in the user's folder for data.
    """
    if path := os.environ.get(STORE_ENVIRONMENT):
        return Path(path)
    return Path(_user_directory("data", STORE_ENVIRONMENT), "store")


def below_home(path: str) -> str:
    """Return the path of ``~/...`` in the user's home directory.

    ``HOME`` counts if it is an absolute path, else the system's entry for the user: with an empty
    ``HOME``, files would go into the root of the file system.
    """
    if sys.platform != "win32" and not os.path.isabs(os.environ.get("HOME", "/")):  # noqa: PTH117
        import pwd  # rarely needed

        with contextlib.suppress(KeyError):  # a user whom the system does not know
            home = pwd.getpwuid(os.getuid()).pw_dir
            return os.path.join(home, path.removeprefix("~/"))  # noqa: PTH118 - see state_directory
    return os.path.expanduser(path)  # noqa: PTH111 - Path's raises without a home


def _user_directory(kind: str, variable: str) -> str:
    """Return the folder that a variable names, else the user's for that kind of file.

    Raises:
        UsageError: the system knows no home directory.
    """
    if path := os.environ.get(variable):
        return path
    import platformdirs  # 10 to 20 ms, of use only where no variable names the folder

    directories = platformdirs.PlatformDirs("ortpkg", appauthor=False)
    try:
        return str(getattr(directories, f"user_{kind}_dir"))
    except RuntimeError as error:
        raise UsageError(
            f"no folder for ortpkg's {kind} is known ({error}): name one in {variable}"
        ) from error
