"""In a project, a name means what the lock has."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.distribution.project.lock_file import Lock, LockedPackage, as_locked, write_lock
from ortpkg.package.references.package_references import StoreReference

DIGEST = "sha256:" + "1" * 64
PACKAGE = LockedPackage(
    name="digits",
    source="oci://models.example/digits",
    version="2",
    digest=DIGEST,
    package_digest="2" * 64,
    files={},
    variants={"": ()},
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ortpkg.toml").write_text(
        '[packages]\ndigits = "oci://models.example/digits"\nother = "oci://models.example/o"\n'
    )
    write_lock(tmp_path, Lock(packages={"digits": PACKAGE}, requests={"digits": ""}))
    return tmp_path


def test_a_name_means_the_version_of_the_lock(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()

    assert as_locked(StoreReference(name="digits"), inner).digest == DIGEST


@pytest.mark.parametrize(
    "reference",
    [
        StoreReference(name="digits", tag="1"),
        StoreReference(name="digits", digest="sha256:" + "9" * 64),
        StoreReference(name="other"),
        StoreReference(name="unknown"),
    ],
)
def test_what_is_stated_or_not_locked_means_what_it_says(
    project: Path, reference: StoreReference
) -> None:
    assert as_locked(reference, project) == reference


def test_outside_of_a_project_nothing_is_locked(tmp_path: Path) -> None:
    assert as_locked(StoreReference(name="digits"), tmp_path) == StoreReference(name="digits")
