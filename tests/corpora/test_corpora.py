"""The corpora: every package and archive under tests/data gets the verdict in its name.

``python -m tests.corpora.generate`` writes them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.errors import OrtpkgError, Severity
from ortpkg.package.archive.archive_directory import DEFAULT_LIMITS
from ortpkg.package.archive.package_archive import unpack_package
from ortpkg.package.reader import check_package
from tests.corpora.generate import ARCHIVES, FORMATS, archive_cases, content_of, format_cases


@pytest.mark.requirement("K17")
@pytest.mark.parametrize("name", sorted(path.name for path in FORMATS.iterdir()))
def test_a_package_gets_the_verdict_in_its_name(name: str) -> None:
    verdict, _, rest = name.partition("-")
    expected = {rest.partition("-")[0]} if verdict == "refuse" else set()

    package, findings = check_package(FORMATS / name)

    assert {finding.rule for finding in findings if finding.severity is Severity.ERROR} == expected
    samples = "-in-samples." in name  # read when they are used
    assert (package is None) == (verdict == "refuse" and not samples)


@pytest.mark.parametrize("name", sorted(path.stem for path in ARCHIVES.iterdir()))
def test_an_archive_gets_the_verdict_in_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    target = tmp_path / "folder" / "p.ortpackage"
    target.parent.mkdir()

    try:
        unpack_package(ARCHIVES / f"{name}.zip", target, limits=DEFAULT_LIMITS)
        verdict = "accept"
    except OrtpkgError:  # of an archive, or of the digests.json in it
        verdict = "refuse"

    assert verdict == name.partition("-")[0]
    assert [path.name for path in target.parent.iterdir()] == (
        ["p.ortpackage"] if verdict == "accept" else []
    )


def test_what_is_committed_is_what_is_generated() -> None:
    formats = {
        f"{name}/{path}": content
        for name, files in format_cases().items()
        for path, content in content_of(files).items()
    }
    paths = (path for path in FORMATS.rglob("*") if path.is_file())
    assert {path.relative_to(FORMATS).as_posix(): path.read_bytes() for path in paths} == formats
    # Their bytes depend on the zlib at hand.
    assert {path.name for path in ARCHIVES.iterdir()} == {f"{name}.zip" for name in archive_cases()}


def test_every_field_has_every_path() -> None:
    assert len(list(FORMATS.iterdir())) == len(format_cases()) > 250
    assert {name.partition("-")[0] for name in format_cases()} == {"accept", "refuse"}
