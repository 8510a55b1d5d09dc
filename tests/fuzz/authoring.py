"""Attacks what writes packages: a damaged document, or a disk that fails or is full from then on.

Every choice comes from the seed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ortpkg.authoring.convert import convert
from ortpkg.authoring.merge import merge
from ortpkg.authoring.sharing.dedup import dedup
from ortpkg.authoring.slim import slim
from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.archive.package_archive import pack_package
from ortpkg.package.changes.recovery import recover
from ortpkg.package.integrity.verification import verify_package
from ortpkg.package.package_info import PackageFormat
from tests.fuzz.mutants import mutated_document
from tests.fuzz.packages import sample_packages

_FAULTS = (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE)
_MOST_OPERATIONS = 60


class _FailingDisk(FileOperations):
    """Fails at one operation; a full disk at each from then on that needs space."""

    def __init__(self, number: int, after: int) -> None:
        self._number = number
        self._left = after

    def before(self, operation: str, path: Path) -> None:
        self._left -= 1
        is_full = self._number == errno.ENOSPC and operation in ("create", "write", "fsync")
        if self._left == -1 or (self._left < 0 and is_full):
            raise OSError(self._number, os.strerror(self._number), str(path))


def _quiet(_text: str) -> None:
    """Nobody listens."""


def _attacks(
    choose: random.Random, root: Path, other: Path, operations: FileOperations
) -> list[Callable[[], object]]:
    output = choose.choice((None, root.with_name("made")))
    form = choose.choice(tuple(PackageFormat))
    ep, notify = choose.choice(("cpu", "cuda", "openvino")), _quiet
    return [
        lambda: convert(root, form, output=output, notify=notify, operations=operations),
        lambda: convert(root, form, force=True, notify=notify, operations=operations),
        lambda: merge(root, other, output=output, notify=notify, operations=operations),
        lambda: slim(root, eps=[ep], output=output, notify=notify, operations=operations),
        lambda: dedup(root, externalize_nbytes=1024, notify=notify, operations=operations),
        lambda: pack_package(root, root.with_name("packed"), notify=notify, operations=operations),
    ]


def attack_authoring(seed: int) -> None:
    """Rewrites a package that has a damaged document, or on a disk that fails.

    In the second case there has to be the old package, or the new one, afterwards.
    """
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root, other = Path(folder, "p.ortpackage"), choose.choice(sample_packages())
        shutil.copytree(choose.choice(sample_packages()), root)
        is_damaged = choose.random() < 0.5
        if is_damaged:
            documents = sorted(root.rglob("*.json"))
            document = choose.choice((*documents, root / "digests.json"))
            document.write_bytes(mutated_document(seed, document.read_text()))
            operations = FileOperations()
        else:
            operations = _FailingDisk(choose.choice(_FAULTS), choose.randrange(_MOST_OPERATIONS))
        allowed = () if is_damaged else (OSError,)
        try:
            with contextlib.suppress(*allowed):
                choose.choice(_attacks(choose, root, other, operations))()
        except OrtpkgError as error:
            if not all(line.isprintable() for line in str(error).splitlines()):
                raise RuntimeError(f"unprintable message: {str(error)!a}") from error
        if not is_damaged:
            recover(root)
            report = verify_package(root)
            assert report.is_complete, report
            assert not report.differences, report
