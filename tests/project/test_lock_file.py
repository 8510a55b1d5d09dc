"""A lock: written the same each time, read as it was written, refused where it is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.project.lock_file import (
    LOCK_FILE,
    Lock,
    LockedFile,
    LockedPackage,
    dump_lock,
    read_lock,
    write_lock,
)
from ortpkg.foundations.errors import AuthoringError, UsageError

PACKAGE = LockedPackage(
    name="digits",
    source="oci://models.example/digits",
    version="2",
    digest="sha256:" + "1" * 64,
    package_digest="2" * 64,
    files={"b": LockedFile(sha256="3" * 64, nbytes=1), "a": LockedFile(sha256="4" * 64, nbytes=2)},
    variants={"server": ("classifier/cuda",), "": ("classifier/cpu-fp32",)},
)
LOCK = Lock(packages={"digits": PACKAGE}, requests={"digits": "oci://models.example/digits >=1"})


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_lock(tmp_path, LOCK)

    assert read_lock(tmp_path) == LOCK
    assert (tmp_path / LOCK_FILE).read_bytes() == dump_lock(LOCK)


def test_the_order_of_what_is_locked_does_not_show() -> None:
    other = {"a": PACKAGE.files["a"], "b": PACKAGE.files["b"]}
    changed = LockedPackage(
        **{name: getattr(PACKAGE, name) for name in PACKAGE.__slots__} | {"files": other}
    )

    assert dump_lock(Lock(packages={"digits": changed}, requests=LOCK.requests)) == dump_lock(LOCK)


def test_without_a_file_there_is_no_lock(tmp_path: Path) -> None:
    assert read_lock(tmp_path) is None


def with_change(**members: Any) -> str:
    document = json.loads(dump_lock(LOCK))
    document["packages"]["digits"].update(members)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "no lock"),
        ("[]", "no lock"),
        ("{}", "schema_version"),
        ('{"schema_version": "2.0", "packages": {}}', "schema_version"),
        (with_change(digest="sha256:1"), "digest"),
        (with_change(files={"a": {"sha256": "1" * 64, "nbytes": -1}}), "nbytes"),
        (with_change(variants={"a": [3]}), "variants"),
        (with_change(extra=1), "extra"),
    ],
)
def test_what_is_no_lock_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / LOCK_FILE).write_text(text)

    with pytest.raises(UsageError, match=what):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        '{"schema_version": "2.0", "packages": {}}',
        '{"schema_version": "2.0", "wants": []}',
        with_change(extra=1).replace('"1.0"', '"1.1"'),
    ],
)
def test_a_lock_of_a_newer_ortpkg_is_called_so(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK_FILE).write_text(text)

    with pytest.raises(UsageError, match="was made by a newer ortpkg") as caught:
        read_lock(tmp_path)

    assert "no lock" not in str(caught.value)
    assert "remove the file" not in str(caught.value)


def test_a_lock_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()

    with pytest.raises(AuthoringError, match="cannot be written"):
        write_lock(tmp_path, LOCK)

    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]
