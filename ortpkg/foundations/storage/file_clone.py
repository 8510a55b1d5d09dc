"""Copy a file so that it shares the original's blocks until one of both changes (reflink)."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_FICLONE = 0x40049409  # linux/fs.h: _IOW(0x94, 9, int)


def clone_file(source: Path, target: Path) -> None:
    """Make ``target`` a durable copy of ``source`` that shares its blocks on the disk.

    Only Linux can, on Btrfs, XFS, bcachefs, and on file systems that delegate to one of these
    (overlayfs, NFS 4.2).

    Raises:
        OSError: the file system cannot, or the two lie on different ones; nothing new is left.
        FileExistsError: ``target`` exists.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(target))
    import fcntl  # there is none on Windows

    with source.open("rb") as original, target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
            os.fsync(copy.fileno())
        except BaseException:
            target.unlink(missing_ok=True)
            raise
