"""digests.json: what is recorded, what is noticed, what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageFormatError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digest_check import DifferenceKind, check_digests, compute_digests
from ortpkg.package.integrity.digests import (
    PackageDigests,
    PendingChange,
    RecordedFile,
    dump_digests,
    parse_digests,
    read_digests,
)
from tests.package.recorded_files import write_recorded


def kinds(root: Path) -> dict[str, DifferenceKind]:
    return {difference.file: difference.kind for difference in check_digests(root)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ({"a.txt": b"alpha"}, "50d4df60d12751593bd3d735339ecc04a2973515758f8524d47005397cfd0140"),
        ({"f": b""}, "031ada0a99f51a1eb989ed55a6124e584ccd9c583f5f25578d9275d319bad523"),
        (
            {"a-b": b"1", "a.b": b"2", "a/b": b"3", "aB": b"4", "B": b"5"},
            "77ede6b14ff3d603078f25e35cc37f0e1b58ae584702cbfef0d46e3dc1bc72ad",
        ),
        (
            {"é.txt": b"e", "z.txt": b"z"},
            "43645faebb76e0539d9346c6c0cd018a8a48d239e845baf2e94affec076bc038",
        ),
    ],
    ids=["empty", "one-file", "empty-file", "order-of-bytes", "utf-8"],
)
def test_the_package_digest_is_the_directory_hash_of_onnxruntime(
    tmp_path: Path, files: dict[str, bytes], expected: str
) -> None:
    assert compute_digests(write_recorded(tmp_path, files)).package_digest == expected


def test_a_longer_record_that_comes_while_it_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_recorded(tmp_path / "p", {"a": b"1"})

    def replaced_and_read(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        (root / "b").write_bytes(b"2")
        content = dump_digests(compute_digests(root))
        (root / ".ortpkg-new").write_bytes(content)
        (root / ".ortpkg-new").replace(root / "digests.json")
        return read_document(*arguments, **named)

    monkeypatch.setattr("ortpkg.package.integrity.digests.read_document", replaced_and_read)
    recorded = read_digests(root)
    assert recorded is not None
    assert sorted(recorded.files) == ["a", "b"]


def test_reads_what_it_writes(tmp_path: Path) -> None:
    digests = PackageDigests(
        files={"a/b.json": RecordedFile(digests=("0" * 64, "f" * 64), nbytes=3)},
        pending=PendingChange(
            commit_document="a/b.json", committed_digest="f" * 64, adds=("a/v",), removes=("a/w",)
        ),
    )
    (tmp_path / "digests.json").write_bytes(dump_digests(digests))

    assert read_digests(tmp_path) == digests


def test_an_untouched_package_has_no_differences(tmp_path: Path) -> None:
    assert check_digests(write_recorded(tmp_path, {"a": b"1", "b/c": b"2"})) == ()


def test_notices_changed_missing_extra_and_unreadable_files(tmp_path: Path) -> None:
    root = write_recorded(
        tmp_path, {"changed": b"abc", "missing": b"1", "unreadable": b"2", "fine": b"3"}
    )
    (root / "changed").write_bytes(b"abd")
    (root / "missing").unlink()
    (root / "extra").write_bytes(b"")
    (root / "unreadable").unlink()
    (root / "unreadable").mkdir()

    assert kinds(root) == {
        "changed": DifferenceKind.CHANGED,
        "extra": DifferenceKind.EXTRA,
        "missing": DifferenceKind.MISSING,
        "unreadable": DifferenceKind.UNREADABLE,
    }


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    root = write_recorded(tmp_path / "p", {"model.onnx": b"abc"})
    (tmp_path / "outside").write_bytes(b"abc")
    (root / "model.onnx").unlink()
    (root / "model.onnx").symlink_to(tmp_path / "outside")

    assert kinds(root) == {"model.onnx": DifferenceKind.UNREADABLE}


def test_a_difference_says_what_was_expected_and_the_sizes(tmp_path: Path) -> None:
    root = write_recorded(tmp_path, {"a": b"abc"})
    (root / "a").write_bytes(b"abcd")

    (difference,) = check_digests(root)

    assert difference.message == "its bytes are not those recorded (4 bytes instead of 3)"
    assert (difference.expected, difference.actual) == (
        hash_bytes(b"abc").sha256,
        hash_bytes(b"abcd").sha256,
    )


def test_what_a_pending_change_adds_and_removes_may_be_there_or_not(tmp_path: Path) -> None:
    root = write_recorded(tmp_path, {"m.json": b"1", "old/x": b"2"})
    digests = compute_digests(root)
    pending = PendingChange(
        commit_document="m.json", committed_digest="0", adds=("new",), removes=("old",)
    )
    (root / "digests.json").write_bytes(
        dump_digests(PackageDigests(files=digests.files, pending=pending))
    )
    (root / "old/x").unlink()
    (root / "new").mkdir()
    (root / "new/y").write_bytes(b"")

    assert check_digests(root) == ()


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../x", "C:/x", "a\\b", "a//b", "", "\ud800"]
)
def test_refuses_a_recorded_path_that_is_not_plain(tmp_path: Path, path: str) -> None:
    document = json.loads(dump_digests(PackageDigests()))
    document["files"][path] = {"digests": ["0" * 64], "nbytes": 1}
    (tmp_path / "digests.json").write_text(json.dumps(document))

    with pytest.raises(
        PackageFormatError, match=r"is not a plain relative path with '/'|surrogate"
    ):
        read_digests(tmp_path)


@pytest.mark.parametrize(
    "pending",
    [
        [],
        {},
        {"commit_document": "a", "committed_digest": "0", "adds": [1], "removes": []},
        {"commit_document": "a", "committed_digest": "0", "adds": ["../x"], "removes": []},
        {"commit_document": "a", "committed_digest": "0", "adds": [], "removes": ["/"]},
        {"commit_document": "a", "committed_digest": "0", "adds": "abc", "removes": 5},
    ],
)
def test_refuses_a_malformed_pending_change(tmp_path: Path, pending: object) -> None:
    document = json.loads(dump_digests(PackageDigests()))
    document["pending"] = pending
    (tmp_path / "digests.json").write_text(json.dumps(document))

    with pytest.raises(PackageFormatError, match=r"digests.json"):
        read_digests(tmp_path)


@pytest.mark.parametrize("is_entry", [False, True], ids=["the sum", "an entry"])
def test_refuses_a_sum_that_its_entries_do_not_have(tmp_path: Path, is_entry: bool) -> None:
    root = write_recorded(tmp_path, {"a": b"abc"})
    document = json.loads((root / "digests.json").read_text())
    if is_entry:
        document["files"]["a"]["digests"] = ["0" * 64]
    else:
        document["package"] = "0" * 64
    content = json.dumps(document)
    (root / "digests.json").write_text(content)

    with pytest.raises(PackageFormatError, match="its entries do not add up"):
        read_digests(root)
    with pytest.raises(PackageFormatError, match="its entries do not add up"):
        parse_digests(content.encode(), root)


def _record(files: dict[str, Sequence[str]], pending: PendingChange | None = None) -> bytes:
    return dump_digests(
        PackageDigests(
            files={
                path: RecordedFile(digests=tuple(digits * 64 for digits in digests), nbytes=1)
                for path, digests in files.items()
            },
            pending=pending,
        )
    )


def _pending(document: str, digits: str, **further: str) -> PendingChange:
    documents = {f"{name}.json": each * 64 for name, each in further.items()}
    return PendingChange(
        commit_document=document, committed_digest=digits * 64, documents=documents
    )


@pytest.mark.parametrize(
    ("files", "pending"),
    [
        ({"model.onnx": "ab"}, None),
        ({"a.json": "ab"}, None),
        ({"a.json": "aa"}, None),
        ({"model.onnx": "ab"}, _pending("a.json", "b")),
        ({"other.json": "ab"}, _pending("a.json", "b")),
        ({"a.json": "ba"}, _pending("a.json", "b")),
        ({"a.json": "cab"}, _pending("a.json", "b")),
        ({"a.json": "ab", "c.json": "bd"}, _pending("a.json", "b", c="b")),
    ],
    ids=[
        "nothing pending",
        "a document",
        "twice the same",
        "no document",
        "another document",
        "new one first",
        "three",
        "another end",
    ],
)
def test_a_second_digest_that_no_change_announces_is_damage(
    files: dict[str, str], pending: PendingChange | None
) -> None:
    """Any digest of a file is accepted, and a signature states one: the rest would be free."""
    with pytest.raises(PackageFormatError, match=r"has [23] digests of .*; a file has one"):
        parse_digests(_record({**files}, pending), Path("p"))


def test_documents_that_a_change_replaces_have_their_old_and_their_new_digest() -> None:
    files = {"a.json": "ab", "c.json": "cd", "model.onnx": "e", "new.json": "f"}
    pending = _pending("a.json", "b", c="d", new="f")

    recorded = parse_digests(_record({**files}, pending), Path("p"))

    assert {path: len(file.digests) for path, file in recorded.files.items()} == {
        "a.json": 2,
        "c.json": 2,
        "model.onnx": 1,
        "new.json": 1,
    }


def test_a_package_without_digests_is_unverified_not_wrong(tmp_path: Path) -> None:
    assert read_digests(tmp_path) is None


def test_large_files_are_hashed_in_chunks_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortpkg.foundations.storage.hashing._BUFFER_NBYTES", 2)
    root = write_recorded(tmp_path, {"a": b"abc"})
    calls: list[tuple[str, int, int]] = []

    assert check_digests(root, progress=lambda *call: calls.append(call)) == ()
    assert calls == [("a", 2, 3), ("a", 3, 3)]
