"""Repairing from another copy and recording anew: what is put right, what is left, why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.foundations.storage.rehearsal import rehearse
from ortpkg.package.changes.repair import DirectorySource, record_digests, repair_package
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import PackageDigests, PendingChange, dump_digests
from ortpkg.package.integrity.verification import VerificationReport, verify_package
from tests.package.failing_operations import FailingOperations, Killed, content_of
from tests.package.recorded_files import write_recorded

FILES = {
    "manifest.json": b'{"model_name": "p"}\n',
    "models/m/metadata.json": b"{}\n",
    "models/m/a/model.onnx": b"model of a",
    "models/m/a/weights.bin": bytes(range(64)),
}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """The copy that nothing has happened to."""
    return write_recorded(tmp_path / "good.ortpackage", FILES)


@pytest.fixture
def bad(good: Path) -> Path:
    """A copy of which a document is changed, a folder is gone, and nothing else."""
    root = Path(shutil.copytree(good, good.parent / "bad.ortpackage"))
    (root / "models/m/metadata.json").write_bytes(b"[]\n")
    shutil.rmtree(root / "models/m/a")
    return root


def foretold(root: Path, other: Path) -> PlannedFiles:
    found = rehearse(lambda operations: repair(root, other, operations))
    assert found is not None
    return found


def test_a_rehearsal_names_what_would_be_written_and_nothing_else(bad: Path, good: Path) -> None:
    planned = foretold(bad, good)
    assert planned.changes == ("models/m/metadata.json",)
    missing = ("models/m/a/model.onnx", "models/m/a/weights.bin")
    assert dict(planned.adds) == {name: len(FILES[name]) for name in missing}
    (bad / "digests.json").write_text(
        (bad / "digests.json").read_text().replace("weights.bin", "weights.bim")
    )
    assert foretold(bad, good).changes == ("digests.json", "models/m/metadata.json")
    assert set(foretold(bad, good).adds) == set(planned.adds)


def test_a_rehearsal_leaves_out_what_the_copy_does_not_have(bad: Path, good: Path) -> None:
    (bad / "extra.json").write_text("{}")
    (good / "models/m/a/weights.bin").unlink()
    (good / "digests.json").unlink()
    planned = foretold(bad, good)
    assert (planned.changes, set(planned.adds)) == (
        ("models/m/metadata.json",),
        {"models/m/a/model.onnx"},
    )


def repair(root: Path, other: Path, operations: FileOperations | None = None) -> VerificationReport:
    return repair_package(root, DirectorySource(other), operations=operations)


def test_changed_and_missing_files_are_put_right(bad: Path, good: Path) -> None:
    report = repair(bad, good)

    assert report.is_intact
    assert report.repaired == (
        "models/m/a/model.onnx",
        "models/m/a/weights.bin",
        "models/m/metadata.json",
    )
    assert content_of(bad) == content_of(good)


def test_a_repaired_file_is_a_new_one_and_who_has_the_old_open_keeps_it(
    bad: Path, good: Path
) -> None:
    with (bad / "models/m/metadata.json").open("rb") as stream:
        repair(bad, good)
        assert stream.read() == b"[]\n"


def test_nothing_is_written_where_nothing_is_damaged(good: Path, bad: Path) -> None:
    operations = FailingOperations()
    assert repair(good, bad, operations).is_intact
    assert operations.log == []


def test_only_files_with_the_recorded_digest_are_taken(bad: Path, good: Path) -> None:
    (good / "models/m/metadata.json").write_bytes(b"{ }")
    (good / "models/m/a/model.onnx").unlink()

    report = repair(bad, good)

    assert report.repaired == ("models/m/a/weights.bin",)
    assert dict(report.not_repaired) == {
        "models/m/metadata.json": f"it is not as recorded in {str(good)!r} either",
        "models/m/a/model.onnx": f"{str(good)!r} does not have it",
    }
    assert (bad / "models/m/metadata.json").read_bytes() == b"[]\n"
    assert [path.name for path in bad.iterdir() if path.name.startswith(".")] == []


def test_a_file_is_found_under_another_name_by_its_digest(bad: Path, good: Path) -> None:
    (good / "models/m/a").rename(good / "models/m/renamed")
    (good / "digests.json").write_bytes(dump_digests(compute_digests(good)))

    assert repair(bad, good).is_intact


def test_extra_files_stay_and_are_still_reported(bad: Path, good: Path) -> None:
    (bad / "notes.txt").write_bytes(b"mine")

    report = repair(bad, good)

    assert [difference.file for difference in report.differences] == ["notes.txt"]
    assert (bad / "notes.txt").read_bytes() == b"mine"


def test_nothing_is_written_through_a_link_in_the_place_of_a_folder(
    bad: Path, good: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (bad / "models/m/a").symlink_to(tmp_path / "outside")

    report = repair(bad, good)

    assert (
        dict(report.not_repaired)["models/m/a/model.onnx"]
        == "'models/m/a' is no folder; remove it, then repair again"
    )
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(
    bad: Path, good: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"precious")
    (bad / "manifest.json").unlink()
    (bad / "manifest.json").symlink_to(tmp_path / "outside")

    assert repair(bad, good).is_intact
    assert (tmp_path / "outside").read_bytes() == b"precious"
    assert not (bad / "manifest.json").is_symlink()


def test_a_folder_in_the_place_of_a_file_is_left_alone(bad: Path, good: Path) -> None:
    (bad / "manifest.json").unlink()
    (bad / "manifest.json").mkdir()

    report = repair(bad, good)

    assert dict(report.not_repaired) == {
        "manifest.json": "a folder is in its place; remove it, then repair again"
    }


@pytest.mark.parametrize("place", ["an entry", "the sum", "white space"])
def test_a_damaged_digests_json_is_put_right_where_the_copys_adds_up_to_the_same(
    bad: Path, good: Path, place: str
) -> None:
    text = (good / "digests.json").read_text()
    digest = {
        "an entry": hash_bytes(FILES["manifest.json"]).sha256,
        "the sum": compute_digests(good).package_digest,
    }
    old = digest.get(place, '"algorithm": ')
    new = ("0" if old[0] != "0" else "1") + old[1:] if place in digest else '"algorithm":\t'
    assert old in text
    (bad / "digests.json").write_text(text.replace(old, new))

    report = repair(bad, good)

    assert report.is_intact
    assert "digests.json" in report.repaired
    assert content_of(bad) == content_of(good)


def test_a_damaged_digests_json_is_not_exchanged_for_that_of_another_package(
    bad: Path, good: Path
) -> None:
    sums = compute_digests(good).package_digest
    (bad / "digests.json").write_text((bad / "digests.json").read_text().replace(sums, "0" * 64))
    (good / "manifest.json").write_bytes(b"{}")
    (good / "digests.json").write_bytes(dump_digests(compute_digests(good)))

    report = repair(bad, good)

    assert dict(report.not_repaired) == {
        "digests.json": f"{str(good)!r} has no digests.json of the same package"
    }


def test_an_interrupted_change_can_be_finished_after_a_repair(bad: Path, good: Path) -> None:
    pending = PendingChange(
        commit_document="models/m/metadata.json",
        committed_digest=hash_bytes(FILES["models/m/metadata.json"]).sha256,
        removes=("models/m/gone",),
    )
    digests = PackageDigests(files=compute_digests(good).files, pending=pending)
    (bad / "digests.json").write_bytes(dump_digests(digests))
    (bad / "models/m/gone").mkdir()

    assert repair(bad, good).is_intact
    assert content_of(bad) == content_of(good)
    assert not (bad / "models/m/gone").exists()


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "out of disk space"])
def test_interrupted_at_any_file_operation_each_file_is_as_it_was_or_right_and_running_again_completes(
    bad: Path, good: Path, kill: bool
) -> None:
    before, after = content_of(bad), content_of(good)
    whole = Path(shutil.copytree(bad, bad.parent / "whole.ortpackage"))
    counting = FailingOperations()
    repair(whole, good, counting)
    assert len(counting.log) > 10

    for index in range(len(counting.log)):
        root = Path(shutil.copytree(bad, bad.parent / f"copy{index}.ortpackage"))
        with pytest.raises((Killed, AuthoringError)):
            repair(root, good, FailingOperations(index, kill=kill))

        now = {
            name: content
            for name, content in content_of(root).items()
            if not name.startswith(".ortpkg-")
        }
        assert all(content in (before.get(name), after[name]) for name, content in now.items())
        assert set(before) <= set(now)
        assert repair(root, good).is_intact
        assert content_of(root) == after
        shutil.rmtree(root)


def test_a_full_disk_says_how_far_it_came(bad: Path, good: Path) -> None:
    with pytest.raises(
        AuthoringError, match=r"No space left on device.*; 2 files were put right, run it again"
    ):
        repair(bad, good, FullAtThirdFile())


class FullAtThirdFile(FailingOperations):
    def before(self, operation: str, path: Path) -> None:
        if operation == "create" and sum(kind == "create" for kind, _ in self.log) == 2:
            self._index = len(self.log)
        super().before(operation, path)


# --- recording ------------------------------------------------------------------------------------


def test_recording_accepts_the_files_as_they_are_and_says_what_differed(bad: Path) -> None:
    report = record_digests(bad)

    assert [difference.file for difference in report.differences] == [
        "models/m/a/model.onnx",
        "models/m/a/weights.bin",
        "models/m/metadata.json",
    ]
    assert verify_package(bad).is_intact


@pytest.mark.parametrize("content", [None, b"{", b"\xff"], ids=["missing", "broken", "no text"])
def test_recording_makes_digests_where_there_are_none_that_can_be_read(
    good: Path, content: bytes | None
) -> None:
    recorded = (good / "digests.json").read_bytes()
    (good / "digests.json").unlink()
    if content is not None:
        (good / "digests.json").write_bytes(content)

    report = record_digests(good)

    assert (good / "digests.json").read_bytes() == recorded
    assert not report.is_compared
    reason = "there was no digests.json" if content is None else "digests.json could not be read: "
    assert report.notes[0].startswith(
        f"nothing could be compared with what was recorded before: {reason}"
    )


def test_recording_over_a_link_says_that_nothing_was_compared(good: Path, tmp_path: Path) -> None:
    (good / "digests.json").replace(tmp_path / "elsewhere.json")
    (good / "digests.json").symlink_to(tmp_path / "elsewhere.json")

    report = record_digests(good)

    assert (report.is_compared, report.differences) == (False, ())
    assert "digests.json could not be read: " in report.notes[0]
    assert verify_package(good).is_intact


def test_recording_an_intact_package_writes_nothing(good: Path) -> None:
    operations = FailingOperations()
    record_digests(good, operations=operations)
    assert operations.log == []


def test_recording_refuses_a_link(good: Path) -> None:
    before = (good / "digests.json").read_bytes()
    (good / "link").symlink_to("manifest.json")

    with pytest.raises(
        AuthoringError, match=r"nothing was changed: a symbolic link, not a regular file: '.*link'"
    ):
        record_digests(good)
    assert (good / "digests.json").read_bytes() == before
