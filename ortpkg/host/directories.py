"""Folders of this user: caches, records, settings, installed packages.

Each is what a variable of ours names, else the one of platformdirs. None of them need exist yet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ortpkg.errors import UsageError

CACHE_ENVIRONMENT = "ORTPKG_CACHE_DIR"
CONFIG_ENVIRONMENT = "ORTPKG_CONFIG_DIR"
STATE_ENVIRONMENT = "ORTPKG_STATE_DIR"
STORE_ENVIRONMENT = "ORTPKG_STORE"


def cache_directory() -> Path:
    """Folder of what may be deleted at any time."""
    return Path(_user_directory("cache", CACHE_ENVIRONMENT))


def config_directory() -> Path:
    """Folder of settings."""
    return Path(_user_directory("config", CONFIG_ENVIRONMENT))


def state_directory() -> str:
    """Folder of what programs remember of a user.

    Text, since a Path takes as long to make as a selection takes to see that nothing is there.
    """
    return _user_directory("state", STATE_ENVIRONMENT)


def records_directory() -> str:
    """Folder with one file per package that was measured here or failed here."""
    return os.path.join(state_directory(), "records")  # noqa: PTH118 - see state_directory


def has_records() -> bool:
    """Return True if anything may be recorded on this machine; costs one look at a directory."""
    return os.path.isdir(records_directory())  # noqa: PTH112 - see state_directory


def bench_lock_path() -> Path:
    """Path to the lock held while something is measured, so that no two benchmarks overlap."""
    return Path(state_directory()) / "bench.lock"


def store_directory() -> Path:
    """Folder of installed packages: ``ORTPKG_STORE``, else ``store`` in the user's for data."""
    if stated := os.environ.get(STORE_ENVIRONMENT):
        return Path(stated)
    return Path(_user_directory("data", STORE_ENVIRONMENT), "store")


def below_home(path: str) -> str:
    """Return the path of ``~/...`` in the user's home directory.

    That is ``HOME`` where it is an absolute path, else what the system has: with an empty one,
    files would go into the root of the file system.
    """
    if sys.platform != "win32" and not os.path.isabs(os.environ.get("HOME", "/")):  # noqa: PTH117
        import pwd  # rarely needed

        with contextlib.suppress(KeyError):  # a user whom the system does not know
            home = pwd.getpwuid(os.getuid()).pw_dir
            return os.path.join(home, path.removeprefix("~/"))  # noqa: PTH118 - see state_directory
    return os.path.expanduser(path)  # noqa: PTH111 - Path's raises without a home


def _user_directory(kind: str, variable: str) -> str:
    """Return the folder that a variable names, else the user's for that kind of file.

    Raises UsageError where the system knows no home directory.
    """
    if stated := os.environ.get(variable):
        return stated
    import platformdirs  # 10 to 20 ms, of use only where no variable names the folder

    directories = platformdirs.PlatformDirs("ortpkg", appauthor=False)
    try:
        return str(getattr(directories, f"user_{kind}_dir"))
    except RuntimeError as error:
        raise UsageError(
            f"no folder for ortpkg's {kind} is known ({error}): name one in {variable}"
        ) from error
