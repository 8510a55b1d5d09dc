"""Where what belongs to this user lies: caches, records, settings, installed packages.

What a variable of ours names, else the platform's directory. None of them need exist yet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

CACHE_ENVIRONMENT = "ORTPKG_CACHE_DIR"
CONFIG_ENVIRONMENT = "ORTPKG_CONFIG_DIR"
STATE_ENVIRONMENT = "ORTPKG_STATE_DIR"
STORE_ENVIRONMENT = "ORTPKG_STORE"


def cache_directory() -> Path:
    """What may be deleted at any time: ``ORTPKG_CACHE_DIR``, else the user's for caches."""
    return Path(os.environ.get(CACHE_ENVIRONMENT) or _platform_directory("cache", "~/.cache"))


def config_directory() -> Path:
    """Settings: ``ORTPKG_CONFIG_DIR``, else the user's for configuration."""
    return Path(os.environ.get(CONFIG_ENVIRONMENT) or _platform_directory("config", "~/.config"))


def state_directory() -> str:
    """What programs remember of a user: ``ORTPKG_STATE_DIR``, else the user's for that.

    Text, since a Path takes as long to make as a selection takes to see that nothing is there.
    """
    return os.environ.get(STATE_ENVIRONMENT) or _platform_directory("state", "~/.local/state")


def records_directory() -> str:
    """One file per package that was measured here or failed here."""
    return os.path.join(state_directory(), "records")  # noqa: PTH118 - see state_directory


def has_records() -> bool:
    """Whether anything may be recorded on this machine; costs one look at a directory."""
    return os.path.isdir(records_directory())  # noqa: PTH112 - see state_directory


def bench_lock_path() -> Path:
    """Held while something is measured, so that two benchmarks do not measure each other."""
    return Path(state_directory()) / "bench.lock"


def store_directory() -> Path:
    """Packages that are installed: ``ORTPKG_STORE``, else ``store`` in the user's for data."""
    if stated := os.environ.get(STORE_ENVIRONMENT):
        return Path(stated)
    return Path(_platform_directory("data", "~/.local/share"), "store")


def below_home(path: str) -> str:
    """``~/...`` in the user's home directory.

    That is ``HOME`` where it is an absolute path, else what the system has: with an empty one,
    files would go into the root of the file system.
    """
    if sys.platform != "win32" and not os.path.isabs(os.environ.get("HOME", "/")):  # noqa: PTH117
        import pwd  # rarely needed

        with contextlib.suppress(KeyError):  # a user whom the system does not know
            home = pwd.getpwuid(os.getuid()).pw_dir
            return os.path.join(home, path.removeprefix("~/"))  # noqa: PTH118 - see state_directory
    return os.path.expanduser(path)  # noqa: PTH111 - Path's raises without a home


def _platform_directory(kind: str, linux_default: str) -> str:
    """As ``platformdirs`` has it; on Linux that is one variable, and not worth its import."""
    if sys.platform.startswith("linux") and "ANDROID_ROOT" not in os.environ:
        stated = os.environ.get(f"XDG_{kind.upper()}_HOME", "").strip()
        # XDG Base Directory Specification: "All paths set in these environment variables must be
        # absolute. If an implementation encounters a relative path ... it should ... ignore it."
        base = stated if os.path.isabs(stated) else below_home(linux_default)  # noqa: PTH117 - see state_directory
        return os.path.join(base, "ortpkg")  # noqa: PTH118 - see state_directory
    import platformdirs  # see above

    directories = platformdirs.PlatformDirs("ortpkg", appauthor=False)
    return str(getattr(directories, f"user_{kind}_dir"))
