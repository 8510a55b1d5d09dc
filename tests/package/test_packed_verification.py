"""verify of a packed package: hashed in the archive; what cannot be read is a finding."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ortpkg.package.archive.packed_verification import verify_packed
from tests.package.recorded_files import write_recorded

FILES = {
    "manifest.json": b'{"model_name": "p"}\n',
    "models/m/a/model.onnx": b"model of a" * 300_000,
    "models/m/metadata.json": b"{}\n",
}


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, bytes]:
    """What a sound archive holds."""
    root = write_recorded(tmp_path / "p", FILES)
    return FILES | {"digests.json": (root / "digests.json").read_bytes()}


def packed(path: Path, contents: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def found(path: Path) -> list[tuple[str, str]]:
    return [(each.file, each.kind.value) for each in verify_packed(path).differences]


def test_a_sound_archive_is_verified_whole(contents: dict[str, bytes], tmp_path: Path) -> None:
    report = verify_packed(packed(tmp_path / "p.ortpkg", contents))

    assert (report.is_complete, report.differences) == (True, ())
    assert (report.file_count, report.nbytes) == (len(FILES), sum(map(len, FILES.values())))


def test_what_was_changed_left_out_and_added_is_named(
    contents: dict[str, bytes], tmp_path: Path
) -> None:
    del contents["models/m/metadata.json"]
    changed = contents | {"models/m/a/model.onnx": b"another", "models/m/new": b""}

    assert found(packed(tmp_path / "p.ortpkg", changed)) == [
        ("models/m/a/model.onnx", "changed"),
        ("models/m/metadata.json", "missing"),
        ("models/m/new", "extra"),
    ]


def test_a_file_whose_bytes_are_damaged_in_the_archive_cannot_be_read(
    contents: dict[str, bytes], tmp_path: Path
) -> None:
    path = packed(tmp_path / "p.ortpkg", contents)
    path.write_bytes(path.read_bytes().replace(b"model of a", b"Model of a", 1))

    assert found(path) == [("models/m/a/model.onnx", "unreadable")]


def test_an_archive_without_digests_is_unverified(tmp_path: Path) -> None:
    report = verify_packed(packed(tmp_path / "p.ortpkg", FILES))

    assert (report.is_complete, report.file_count, report.nbytes) == (False, 0, 0)
    assert report.notes == ("unverified: there is no digests.json, so nothing can be compared",)


def test_progress_is_told_in_bytes_of_each_recorded_file(
    contents: dict[str, bytes], tmp_path: Path
) -> None:
    told: dict[str, list[tuple[int, int]]] = {}
    verify_packed(
        packed(tmp_path / "p.ortpkg", contents),
        progress=lambda name, done, total: told.setdefault(name, []).append((done, total)),
    )

    assert told.keys() == FILES.keys()
    assert len(told["models/m/a/model.onnx"]) > 1
    for name, steps in told.items():
        assert steps == sorted(set(steps))
        assert {total for _, total in steps} == {len(FILES[name])}
        assert steps[-1][0] == len(FILES[name])
