"""File names that tell other processes whether the process that made them may still live."""

from __future__ import annotations

import contextlib
import os
import sys
import zlib
from enum import Enum, auto
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_PIDS = "/proc/self/ns/pid"
_RANDOM_NBYTES = 8


class Maker(Enum):
    """State of the process that made a name."""

    LIVES = auto()
    IS_GONE = auto()
    UNKNOWN = auto()  # another machine or container, or the name is not ours


def new_name() -> str:
    """Return a unique name: ``machine-boot-container-process-random``."""
    return "-".join((*_here(), str(os.getpid()), os.urandom(_RANDOM_NBYTES).hex()))


def this_machine() -> str:
    """Return a short name of this machine, as other machines see it."""
    return _here()[0]


def maker_of(name: str) -> Maker:
    """Return the state of the process that made ``name``.

    A new process with the number of one that ended passes for it, so that its files are kept too
    long and never too short.
    """
    match name.split("-"):
        case [machine, boot, container, process, _] if process.isdecimal() and len(process) < 11:
            pass
        case _:
            return Maker.UNKNOWN
    here = _here()
    if machine != here[0]:
        return Maker.UNKNOWN
    if boot != here[1]:
        return Maker.IS_GONE
    if container != here[2] or sys.platform == "win32":  # Windows has no harmless call that asks
        return Maker.UNKNOWN
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return Maker.IS_GONE
    except OSError:
        return Maker.LIVES  # a process of another user
    return Maker.LIVES


@cache
def _here() -> tuple[str, str, str]:
    machine = (os.uname().nodename if sys.platform != "win32" else "") + _text_of(_MACHINE)
    container = ""
    with contextlib.suppress(OSError):
        container = os.readlink(_PIDS)  # noqa: PTH115 - the text of a link that leads nowhere
    return _short(machine), _short(_text_of(_BOOT)), _short(container)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def _short(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
