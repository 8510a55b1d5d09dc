"""Attacks what reads packages: changed documents, and a system that fails at some call."""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from ortpkg.api.model_package import ModelPackage
from ortpkg.authoring.convert import convert
from ortpkg.authoring.package_checks import validate
from ortpkg.cli.package_json import package_json
from ortpkg.foundations.errors import OrtpkgError, PackageFormatError
from ortpkg.package.integrity.verification import verify_package
from ortpkg.package.package_info import PackageFormat
from tests.fuzz.mutants import mutated_document

_SAMPLE = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
_FAULTS = (errno.EIO, errno.EMFILE, errno.EACCES, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG)
_CALLS = ("stat", "lstat", "open", "scandir", "readlink")
_MOST_CALLS = 40


@cache
def sample_packages() -> tuple[Path, ...]:
    """The sample package in each generation, for the life of the process."""
    folder = Path(tempfile.mkdtemp(prefix="ortpkg-fuzz-"))
    found = []
    for form in PackageFormat:
        root = folder / f"{form}.ortpackage"
        shutil.copytree(_SAMPLE, root)
        with _ignored():
            convert(root, form, notify=lambda _text: None)
        found.append(root)
    return tuple(found)


def attack_document(seed: int) -> None:
    """Opens, checks, selects from and shows a package with one document changed."""
    choose = random.Random(seed)
    root = choose.choice(sample_packages())
    document = choose.choice(sorted(root.rglob("*.json")))
    whole = document.read_bytes()
    document.unlink()
    try:
        document.write_bytes(mutated_document(seed, whole.decode()))
        _use(root, choose)
    finally:
        document.unlink()
        document.write_bytes(whole)


def attack_fault(seed: int) -> None:
    """The same, of a whole package, where one call to the operating system fails.

    OSError is then an answer, too.
    """
    choose = random.Random(seed)
    root = choose.choice(sample_packages())
    with (
        _failing(choose.choice(_CALLS), choose.choice(_FAULTS), choose.randrange(_MOST_CALLS)),
        _ignored(OSError),
    ):
        _use(root, choose)


def _use(root: Path, choose: random.Random) -> None:
    compat = choose.choice((None, None, "onnxruntime-1.31"))
    with _ignored():
        package = ModelPackage(root, compat=compat)
        package_json(package.info)
        for component in package.component_models:
            package.select(
                component.name,
                policy=choose.choice(("default", "onnxruntime-1.27", "onnxruntime-1.31")),
            )
    with _ignored():
        for finding in validate(root, compat=compat):
            assert str(finding).isprintable(), f"unprintable finding: {str(finding)!a}"
    with _ignored():
        verify_package(root)


@contextmanager
def _ignored(*kinds: type[BaseException]) -> Iterator[None]:
    """Errors of ours whose messages a terminal may have; and of ``kinds``."""
    try:
        yield
    except OrtpkgError as error:
        lines = str(error).splitlines() if isinstance(error, PackageFormatError) else [str(error)]
        if not all(line.isprintable() for line in lines):
            raise RuntimeError(f"unprintable message: {str(error)!a}") from error
    except kinds:
        return


@contextmanager
def _failing(call: str, number: int, after: int) -> Iterator[None]:
    """Meanwhile, one call of ``os.<call>`` fails: that after so many."""
    real: Any = getattr(os, call)
    left = after

    def failing(*arguments: Any, **details: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(number, os.strerror(number), str(arguments[0]) if arguments else None)
        return real(*arguments, **details)

    with mock.patch.object(os, call, failing):
        yield
