"""New files among others in a folder: all come or none, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.changes.added_files import FileChange, leftovers, publish, staging_folder
from tests.package.failing_operations import FailingOperations, Killed, content_of

BEFORE = {"kept": b"kept", "m.onnx": b"old", "stale.bin": b"stale"}
AFTER = {"kept": b"kept", "m.onnx": b"new m", "m.bin": b"new b"}
CHANGE = FileChange(adds={"0": "m.bin", "1": "m.onnx"}, takes_away=("m.onnx", "stale.bin"))


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return folder_in(tmp_path, "target")


def change(
    target: Path,
    operations: FileOperations | None = None,
    *,
    wanted: FileChange = CHANGE,
    **more: Any,
) -> None:
    operations = operations or FileOperations()
    with staging_folder(target, operations) as staged:
        operations.write_file(staged / "0", b"new b")
        operations.write_file(staged / "1", b"new m")
        publish(target, staged, lambda: wanted, operations, **more)


def enter(target: Path) -> None:
    """As the next command does, which then does nothing."""
    with staging_folder(target, FileOperations()):
        pass


def folder_in(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    for each, content in BEFORE.items():
        (folder / each).write_bytes(content)
    return folder


def operations_of(folder: Path) -> list[tuple[str, Path]]:
    """All of one change."""
    operations = FailingOperations()
    change(folder, operations)
    return operations.log


def test_files_come_to_their_places_and_those_that_are_to_go_are_gone(target: Path) -> None:
    committed: list[dict[str, bytes]] = []

    change(
        target,
        on_commit=lambda: committed.append(
            {path.name: path.read_bytes() for path in target.glob("[a-z]*")}
        ),
    )

    assert content_of(target) == AFTER
    assert [path.name for path in sorted(target.iterdir())] == ["kept", "m.bin", "m.onnx"]
    assert committed == [AFTER]


def test_a_failure_at_any_operation_leaves_everything_as_it_was(
    target: Path, tmp_path: Path
) -> None:
    for index in range(len(operations_of(folder_in(tmp_path, "other")))):
        operations = FailingOperations(index)
        with contextlib.suppress(AuthoringError):
            change(target, operations)
        if content_of(target) == AFTER:  # only what comes behind the commit may fail
            assert {each for each, _ in operations.log[index:]} <= {
                "fsync_directory",
                "unlink",
                "remove_directory",
            }
            break
        enter(target)
        assert content_of(target) == BEFORE, (index, operations.log[index])
        assert [path.name for path in sorted(target.iterdir())] == ["kept", "m.onnx", "stale.bin"]
    else:
        raise AssertionError("it never came to the commit")


def test_the_error_says_what_it_could_not_change(target: Path) -> None:
    with pytest.raises(
        AuthoringError,
        match=r"cannot change '.*target'; nothing was changed: No space left on device",
    ):
        change(target, FailingOperations(at=("replace", "m.onnx")))
    with pytest.raises(
        AuthoringError, match=r"cannot write in '.*target': No space left on device"
    ):
        change(target, FailingOperations(at=("create", "0")))
    (target / "file").touch()
    with pytest.raises(AuthoringError, match=r"cannot make the folder '.*new': \w"):
        change(target / "file" / "new")


def test_what_is_killed_at_any_operation_is_undone_or_done_by_whoever_comes_next(
    target: Path, tmp_path: Path
) -> None:
    for index in range(len(operations_of(folder_in(tmp_path, "other")))):
        folder = folder_in(tmp_path, f"killed{index}")
        operations = FailingOperations(index, kill=True)
        with pytest.raises(Killed):
            change(folder, operations)
        enter(folder)
        is_done = ("replace", folder / "m.onnx") in operations.log[:index]
        assert content_of(folder) == (AFTER if is_done else BEFORE), (index, operations.log[index])
        assert len(list(folder.iterdir())) == 3


def killed_before_the_last_move(target: Path) -> Path:
    """What a command leaves that took old files away and moved one of two new ones."""
    operations = operations_of(folder_in(target.parent, "other"))
    last = max(index for index, (kind, _) in enumerate(operations) if kind == "replace")
    with pytest.raises(Killed):
        change(target, FailingOperations(last, kill=True))
    (leftover,) = leftovers(target)
    assert sorted(path.name for path in target.iterdir()) == [leftover.name, "kept", "m.bin"]
    return leftover


def test_what_somebody_put_there_after_a_kill_stays(target: Path) -> None:
    killed_before_the_last_move(target)
    (target / "m.bin").unlink()
    (target / "m.bin").write_bytes(b"somebody's")
    (target / "m.onnx").write_bytes(b"somebody's too")

    enter(target)

    assert content_of(target) == BEFORE | {"m.bin": b"somebody's", "m.onnx": b"somebody's too"}


@pytest.mark.parametrize(
    "names", [{"adds": {"../kept2": [0, 0, 0]}}, {"takes_away": ["../out"]}, {"staged": ["a/b"]}]
)
def test_a_journal_that_names_other_folders_is_not_believed(
    target: Path, names: dict[str, Any]
) -> None:
    journal = killed_before_the_last_move(target) / "journal.json"
    journal.write_text(json.dumps(json.loads(journal.read_text()) | names))

    enter(target)

    assert content_of(target) == {"kept": b"kept", "m.bin": b"new b"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"adds": 1, "staged": 2, "takes_away": 3}'])
def test_a_journal_that_is_none_undoes_nothing(target: Path, text: str) -> None:
    (killed_before_the_last_move(target) / "journal.json").write_text(text)

    enter(target)

    assert content_of(target) == {"kept": b"kept", "m.bin": b"new b"}


def test_the_folder_of_a_command_that_lives_is_not_touched(target: Path) -> None:
    with staging_folder(target, FileOperations()) as first:
        (first / "0").write_bytes(b"mine")
        assert leftovers(target) == []
        enter(target)
        assert (first / "0").read_bytes() == b"mine"
    assert content_of(target) == BEFORE


def test_only_folders_with_a_name_of_ours_are_left_behind(target: Path) -> None:
    leftover = killed_before_the_last_move(target)
    (target / (leftover.name + "0")).mkdir()
    (target / "folder").mkdir()
    (target / f"{leftover.name[:-1]}{'1' if leftover.name.endswith('0') else '0'}").touch()

    assert leftovers(target) == [leftover]
    assert leftovers(target / "nowhere") == []


def test_folders_that_were_made_for_nothing_are_gone_again(target: Path) -> None:
    with staging_folder(target / "a" / "b", FileOperations()) as staged:
        assert staged.is_dir()
    assert not (target / "a").exists()
    with staging_folder(target / "a" / "b", FileOperations()) as staged:
        (staged / "0").write_bytes(b"0")
        publish(target / "a" / "b", staged, lambda: FileChange(adds={"0": "x"}), FileOperations())
    assert content_of(target / "a") == {"b/x": b"0"}


def test_a_place_that_is_taken_meanwhile_is_not_overwritten(target: Path) -> None:
    wanted = FileChange(adds={"0": "other", "1": "kept"}, takes_away=("m.onnx",))
    with pytest.raises(
        AuthoringError, match=r"kept' has come to lie there meanwhile; nothing was changed"
    ):
        change(target, wanted=wanted)
    assert content_of(target) == BEFORE


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_whoever_refuses_the_change_changes_nothing(
    target: Path, error: type[BaseException]
) -> None:
    def refuse() -> FileChange:
        raise error

    with pytest.raises(error), staging_folder(target, FileOperations()) as staged:
        publish(target, staged, refuse, FileOperations())
    assert content_of(target) == BEFORE


def test_an_interrupt_after_the_last_move_comes_too_late(target: Path) -> None:
    calls: list[str] = []

    def commit() -> None:
        calls.append("commit")
        if len(calls) == 1:
            raise KeyboardInterrupt

    change(target, on_commit=commit)

    assert (content_of(target), calls) == (AFTER, ["commit", "commit"])


@pytest.mark.parametrize("place", ["m.onnx", "m.bin"])
def test_an_interrupt_in_between_undoes_everything(target: Path, place: str) -> None:
    class Interrupted(FileOperations):
        def replace(self, source: Path, target: Path) -> None:
            super().replace(source, target)
            if target.name == place and source.parent.name == "new" and place == "m.bin":
                raise KeyboardInterrupt
            if target.name == place and target.parent.name == "old":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change(target, Interrupted())
    assert content_of(target) == BEFORE
