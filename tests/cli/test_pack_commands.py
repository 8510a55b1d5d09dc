"""``ortpkg pack`` and ``ortpkg unpack``."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

import ortpkg as api
from tests.cli.conftest import DIGITS, RunCommand


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_the_names_follow_from_the_package(ortpkg: RunCommand) -> None:
    done = ortpkg("pack", DIGITS)
    assert (done.code, done.out) == (0, "digits.ortpkg\n")
    assert "packed 12 files" in done.err

    done = ortpkg("unpack", "digits.ortpkg")
    assert (done.code, done.out) == (0, "digits.ortpackage\n")
    assert ortpkg("verify", "digits.ortpackage").code == 0


def test_the_listing_is_what_is_unpacked(ortpkg: RunCommand) -> None:
    ortpkg("pack", DIGITS)
    listed = ortpkg("unpack", "digits.ortpkg", "--list", "--json").json["entries"]
    ortpkg("unpack", "digits.ortpkg", "-o", "d")

    files = {
        path.relative_to("d").as_posix(): path.stat().st_size
        for path in Path("d").rglob("*")
        if path.is_file()
    }
    assert {each["name"]: each["nbytes"] for each in listed} == files
    assert "manifest.json" in ortpkg("unpack", "digits.ortpkg", "--list").out


def test_reports_are_json_too(ortpkg: RunCommand) -> None:
    packed = ortpkg("pack", DIGITS, "-o", "d.ortpkg", "--json").json
    unpacked = ortpkg("unpack", "d.ortpkg", "-o", "d", "--json").json

    assert (packed["kind"], unpacked["kind"]) == ("pack", "unpack")
    for name in ("files", "nbytes", "package_digest", "verified"):
        assert packed[name] == unpacked[name]


def test_a_damaged_archive_is_exit_code_4_and_leaves_nothing(ortpkg: RunCommand) -> None:
    ortpkg("pack", DIGITS)
    path = Path("digits.ortpkg")
    path.write_bytes(path.read_bytes()[:-1])

    done = ortpkg("unpack", path)

    assert done.code == 4
    assert "does not end with the end of an archive: truncated" in done.err
    assert [each.name for each in Path().iterdir()] == ["digits.ortpkg"]


def test_without_digests_a_warning_says_unverified(ortpkg: RunCommand, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(DIGITS, tmp_path / "copy.ortpackage"))
    (copy / "digests.json").unlink()
    assert "had no digests.json" in ortpkg("pack", copy).err
    with zipfile.ZipFile("by_hand.ortpkg", "w") as archive:
        for path in sorted(copy.rglob("*")):
            archive.write(path, path.relative_to(copy))

    assert "warning: unverified" in ortpkg("unpack", "by_hand.ortpkg").err
    assert ortpkg("verify", "by_hand.ortpackage").code == 0


def test_a_package_is_repaired_from_its_archive(ortpkg: RunCommand) -> None:
    ortpkg("pack", DIGITS)
    ortpkg("unpack", "digits.ortpkg")
    Path("digits.ortpackage/README.md").unlink()

    assert (
        ortpkg("verify", "digits.ortpackage", "--repair-from", "digits.ortpkg").out
        == "repaired: README.md\n"
    )
    assert ortpkg("verify", "digits.ortpackage", "--repair-from", "no.ortpkg").code == 4


def test_python_has_the_same() -> None:
    assert api.pack(DIGITS, "d.ortpkg").is_verified
    report = api.unpack("d.ortpkg", "d")
    assert api.verify("d").package_digest == report.package_digest
    assert api.ModelPackage("d").name
