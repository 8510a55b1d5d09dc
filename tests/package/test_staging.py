"""A new folder that appears whole or not at all, also where an empty one has to stay."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.foundations.storage.rehearsal import rehearse
from ortpkg.package.changes.staging import is_replaceable, planned_contents, staged
from tests.package.failing_operations import FailingOperations, Killed, content_of


def build(target: Path, operations: FileOperations | None = None) -> None:
    operations = operations or FileOperations()
    with staged(target, nbytes=0, operations=operations) as staging:
        operations.make_directory(staging)
        operations.make_directory(staging / "models")
        for name in ("manifest.json", "digests.json", "models/a"):
            operations.write_file(staging / name, name.encode())


WHOLE = {name: name.encode() for name in ("digests.json", "manifest.json", "models/a")}


def test_an_empty_folder_stays_the_folder_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "p"
    target.mkdir()
    monkeypatch.chdir(target)
    inode = target.stat().st_ino

    build(target)

    assert target.stat().st_ino == inode
    assert Path.cwd() == target
    assert content_of(target) == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_an_empty_folder_is_filled_without_a_change_beside_it(tmp_path: Path) -> None:
    """What a user may do who may not write to the folder around it.

    Holds for root, too, who may everywhere.
    """
    target = tmp_path / "p"
    target.mkdir()
    operations = FailingOperations()

    build(target, operations)

    assert [path for _, path in operations.log if not path.is_relative_to(target)] == []
    assert content_of(target) == WHOLE


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="needs a folder that cannot be written"
)
def test_an_empty_folder_is_filled_where_the_one_around_it_cannot_be_written(
    tmp_path: Path,
) -> None:
    target = tmp_path / "p"
    target.mkdir()
    tmp_path.chmod(0o500)
    try:
        build(target)
    finally:
        tmp_path.chmod(0o700)

    assert content_of(target) == WHOLE


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "full disk"])
def test_stopped_at_any_operation_an_empty_folder_has_no_manifest_or_everything(
    tmp_path: Path, kill: bool
) -> None:
    counting = FailingOperations()
    (tmp_path / "counted").mkdir()
    build(tmp_path / "counted", counting)
    outcomes = []
    for index in range(len(counting.log)):
        target = tmp_path / f"p{index}"
        target.mkdir()
        with contextlib.suppress(Killed, AuthoringError):
            build(target, FailingOperations(index, kill=kill))
        is_new = (target / "manifest.json").exists()
        outcomes.append(is_new)
        if is_new:
            assert WHOLE.items() <= content_of(target).items()
            with pytest.raises(AuthoringError, match="exists already"):
                build(target)
        else:
            assert kill or content_of(target) == {}
            build(target)
            assert content_of(target) == WHOLE
    assert outcomes == sorted(outcomes)
    assert True in outcomes


def test_what_came_into_the_folder_after_a_kill_is_nobodys_leftover(tmp_path: Path) -> None:
    target = tmp_path / "p"
    target.mkdir()
    with pytest.raises(Killed):
        build(target, FailingOperations(at=("replace", "manifest.json"), kill=True))
    (target / "digests.json").unlink()
    (target / "digests.json").mkdir()

    with pytest.raises(AuthoringError, match="exists already"):
        build(target)

    assert (target / "digests.json").is_dir()


def test_a_plan_says_what_a_package_in_the_place_of_another_adds_changes_and_removes(
    tmp_path: Path,
) -> None:
    for name in ("digests.json", "manifest.json", "models/b", "models/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    adds = {"manifest.json": 3, "models/c": 5}

    assert planned_contents(tmp_path, adds, is_replaced=True) == PlannedFiles(
        root=tmp_path,
        adds={"models/c": 5},
        changes=("manifest.json", "digests.json"),
        removes=("models/a", "models/b"),
    )
    assert planned_contents(tmp_path / "new", adds, is_replaced=False) == PlannedFiles(
        root=tmp_path / "new", adds={**adds, "digests.json": None}
    )


def test_only_a_package_or_a_file_is_replaceable(tmp_path: Path) -> None:
    for name in ("package", "other", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "package/manifest.json").touch()
    (tmp_path / "other/notes.txt").touch()
    (tmp_path / "file").touch()

    def told(name: str, *, is_package: bool) -> bool | str:
        try:
            return is_replaceable(tmp_path / name, is_package=is_package)
        except AuthoringError as error:
            return str(error).partition("' ")[2]

    no_package, no_file = (
        "is no package: it is not overwritten",
        "is no file: it is not overwritten",
    )
    assert {
        name: told(name, is_package=True) for name in ("package", "other", "empty", "file", "none")
    } == {
        "package": True,
        "other": no_package,
        "empty": False,
        "file": no_package,
        "none": False,
    }
    assert {
        name: told(name, is_package=False) for name in ("package", "empty", "file", "none")
    } == {
        "package": no_file,
        "empty": False,
        "file": True,
        "none": False,
    }


@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_a_link_to_a_package_is_not_replaceable(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "link").symlink_to("package")
    with pytest.raises(AuthoringError, match="is no package"):
        is_replaceable(tmp_path / "link", is_package=True)
    (tmp_path / "package/manifest.json").touch()
    with pytest.raises(AuthoringError, match="is no package"):
        is_replaceable(tmp_path / "link", is_package=True)


def test_what_is_not_announced_is_refused_in_a_rehearsal(tmp_path: Path) -> None:
    planned = PlannedFiles(root=tmp_path, adds={"a": 1})

    assert rehearse(lambda operations: operations.announce(planned)) == planned
    assert rehearse(lambda _operations: None) is None
    with pytest.raises(AuthoringError, match=r"left something to tidy up \(unlink\)"):
        rehearse(lambda operations: operations.unlink(tmp_path / "a"))
    with pytest.raises(ZeroDivisionError):
        rehearse(lambda _operations: 1 / 0)
