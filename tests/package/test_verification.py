"""verify: names every difference, notices every flipped byte, exits with the sum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import PackageNotFoundError, VerifyExitCode
from ortpkg.package.integrity.asset_digest import listing_digest
from ortpkg.package.integrity.digest_check import DifferenceKind, compute_digests
from ortpkg.package.integrity.digests import PackageDigests, PendingChange, dump_digests
from ortpkg.package.integrity.file_states import FileState, file_states
from ortpkg.package.integrity.verification import VerificationReport, verify_package
from ortpkg.package.paths.asset_reference import asset_folder_name
from tests.package.recorded_files import write_recorded

FILES = {
    "manifest.json": b'{"model_name": "p"}\n',
    "models/m/metadata.json": b"{}\n",
    "models/m/a/model.onnx": b"model of a",
    "models/m/a/weights.bin": bytes(range(64)),
    "models/m/b/model.onnx": b"model of b",
    "samples/empty": b"",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small package with digests."""
    return write_recorded(tmp_path / "p.ortpackage", FILES)


def differences(report: VerificationReport) -> dict[str, str]:
    return {each.file: each.kind.value for each in report.differences}


def test_an_intact_package_has_no_differences(root: Path) -> None:
    report = verify_package(root)

    assert report.is_intact
    assert report.exit_code == 0
    assert (report.file_count, report.nbytes) == (len(FILES), sum(map(len, FILES.values())))
    assert report.package_digest == json.loads((root / "digests.json").read_text())["package"]


def test_what_is_far_larger_than_its_record_is_not_read(root: Path) -> None:
    """A sparse file of a terabyte, which would be hashed for hours."""
    os.truncate(root / "models/m/a/weights.bin", 1 << 40)

    report = verify_package(root)

    (found,) = report.differences
    assert (found.kind, found.file) == (DifferenceKind.CHANGED, "models/m/a/weights.bin")
    assert found.message == f"it has {1 << 40} bytes instead of 64, and was not read"
    assert (len(found.expected), found.actual) == (64, "")
    assert report.exit_code == VerifyExitCode.CHANGED
    assert report.nbytes == sum(map(len, FILES.values())) - 64
    (state,) = (
        each for each in file_states(root, most_nbytes=None).files if each.path == found.file
    )
    assert (state.state, state.message) == (FileState.CHANGED, found.message)


def test_what_is_a_little_larger_is_read_to_say_what_it_is(root: Path) -> None:
    os.truncate(root / "models/m/a/weights.bin", 64 + (1 << 20))
    (found,) = verify_package(root).differences
    assert len(found.actual) == 64


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_flipped_byte_of_any_file_is_noticed_and_named(root: Path, data: st.DataObject) -> None:
    names = [*FILES, "digests.json"]
    name = data.draw(st.sampled_from([each for each in names if (root / each).stat().st_size]))
    content = (root / name).read_bytes()
    # digests.json is the one file with a form of its own, and the longest: every place in it gets
    # its turn.
    index = data.draw(st.integers(0, len(content) - 1))
    flip = data.draw(st.integers(1, 255))
    damaged = bytearray(content)
    damaged[index] ^= flip
    try:
        (root / name).write_bytes(damaged)
        report = verify_package(root)
    finally:
        (root / name).write_bytes(content)

    assert report.exit_code != 0
    # A digit of a version that nobody has written yet is noticed by saying that not everything was
    # compared.
    assert name in differences(report) or (
        name == "digests.json" and "is of version" in report.notes[0]
    )


@pytest.mark.parametrize(
    ("damage", "code", "found"),
    [
        (
            lambda root: (root / "manifest.json").write_bytes(b"{}"),
            16,
            {"manifest.json": "changed"},
        ),
        (lambda root: (root / "samples/empty").unlink(), 32, {"samples/empty": "missing"}),
        (lambda root: (root / "new").write_bytes(b""), 32, {"new": "extra"}),
        (
            lambda root: ((root / "samples/empty").unlink(), (root / "samples/empty").mkdir()),
            64,
            {"samples/empty": "unreadable"},
        ),
        (lambda root: (root / "digests.json").unlink(), 128, {}),
        (
            lambda root: (root / "digests.json").write_bytes(b"{"),
            64 | 128,
            {"digests.json": "unreadable"},
        ),
        (
            lambda root: (
                (root / "new").write_bytes(b""),
                (root / "manifest.json").write_bytes(b""),
            ),
            16 | 32,
            {"manifest.json": "changed", "new": "extra"},
        ),
    ],
    ids=[
        "changed",
        "missing",
        "extra",
        "unreadable",
        "no-digests",
        "broken-digests",
        "changed-and-extra",
    ],
)
def test_the_exit_code_is_the_sum_of_what_was_found(
    root: Path, damage: Callable[[Path], object], code: int, found: dict[str, str]
) -> None:
    damage(root)
    report = verify_package(root)

    assert (report.exit_code, differences(report)) == (code, found)
    assert not report.is_intact


def test_a_folder_exchanged_for_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / "models/m/a").rename(tmp_path / "elsewhere")
    (root / "models/m/a").symlink_to(tmp_path / "elsewhere")

    assert differences(verify_package(root)) == {
        "models/m/a": "extra",
        "models/m/a/model.onnx": "missing",
        "models/m/a/weights.bin": "missing",
    }


def test_a_wrong_size_beside_the_right_digest_is_damage_of_the_record(root: Path) -> None:
    document = json.loads((root / "digests.json").read_text())
    document["files"]["manifest.json"]["nbytes"] = 7
    (root / "digests.json").write_text(json.dumps(document, indent=2) + "\n")

    (difference,) = verify_package(root).differences

    assert difference.file == "digests.json"
    assert difference.message == "it gives 'manifest.json' 7 bytes; a file with that digest has 20"


def test_a_newer_minor_version_is_verified_as_far_as_it_is_known_and_that_is_said(
    root: Path,
) -> None:
    document = json.loads((root / "digests.json").read_text()) | {
        "schema_version": "1.7",
        "new": [],
    }
    (root / "digests.json").write_text(json.dumps(document, indent=2) + "\n")

    report = verify_package(root)

    assert (report.differences, report.exit_code) == ((), 128)
    assert report.notes == (
        (
            "digests.json is of version '1.7'; this ortpkg verifies all that version 1.0 records,"
            " and no more"
        ),
    )


def test_an_interrupted_change_is_said_and_is_no_damage(root: Path) -> None:
    digests = compute_digests(root)
    pending = PendingChange(
        commit_document="manifest.json", committed_digest="0" * 64, adds=("models/m/c",)
    )
    (root / "digests.json").write_bytes(
        dump_digests(PackageDigests(files=digests.files, pending=pending))
    )

    report = verify_package(root)

    assert report.is_intact
    assert report.notes == (
        "a change was interrupted; the next command that changes the package finishes or undoes it",
    )


@pytest.mark.parametrize("count", [1, 20])
def test_changes_committed_meanwhile_are_no_damage(root: Path, count: int) -> None:
    """The digests were read before another command's commit, the files after it; again and again."""
    changes = iter(range(count))
    read_files: set[str] = set()

    def change(file: str, *_: object) -> None:
        if file in read_files:  # the next comparison has begun
            read_files.clear()
        is_first = not read_files
        read_files.add(file)
        if is_first and (number := next(changes, None)) is not None:
            for name in ("models/m/a/model.onnx", "models/m/b/model.onnx", "samples/empty"):
                (root / name).write_bytes(b"another content" * (number + 1))
            content = dump_digests(compute_digests(root))
            (root / ".ortpkg-new").write_bytes(content)
            (root / ".ortpkg-new").replace(root / "digests.json")

    assert verify_package(root, progress=change).is_intact


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not a model package: there is neither manifest.json nor digests.json"),
        ("x", "does not exist"),
    ],
)
def test_refuses_what_is_no_package(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(PackageNotFoundError, match=message):
        verify_package(tmp_path / name)


def _with_asset(root: Path, content: bytes, *, is_declared: bool) -> str:
    """Puts an asset into the package whose name says that it holds ``b"weights"``.

    Gives its folder.
    """
    uri = listing_digest({"w.bin": hashlib.sha256(b"weights").hexdigest()})
    folder = "parts/common" if is_declared else f"shared_assets/{asset_folder_name(uri)}"
    (root / folder).mkdir(parents=True)
    (root / folder / "w.bin").write_bytes(content)
    if is_declared:
        (root / "manifest.json").write_text(
            json.dumps({"shared_assets": {uri: folder}}), encoding="utf-8"
        )
    return folder


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_asset_that_is_not_what_its_digest_says_is_named(
    root: Path, is_declared: bool, is_recorded: bool
) -> None:
    """Also where it was recorded so, and where nothing is recorded."""
    folder = _with_asset(root, b"others", is_declared=is_declared)
    (root / "digests.json").unlink()
    if is_recorded:
        (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))

    report = verify_package(root)

    assert differences(report) == {folder: "changed"}
    assert "is not what its digest says: it is sha256:" in report.differences[0].message
    assert report.exit_code == 16 + (0 if is_recorded else 128)


def test_an_asset_that_is_what_its_digest_says_is_no_difference(root: Path) -> None:
    _with_asset(root, b"weights", is_declared=False)
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))

    assert verify_package(root).is_intact


def test_an_asset_whose_file_is_damaged_is_named_by_that_file(root: Path) -> None:
    folder = _with_asset(root, b"weights", is_declared=False)
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    (root / folder / "w.bin").write_bytes(b"damaged")

    assert differences(verify_package(root)) == {f"{folder}/w.bin": "changed"}


def test_an_asset_that_leads_out_of_the_package_is_not_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (root / "shared_assets").mkdir()
    (root / "shared_assets" / f"sha256-{'a' * 64}").symlink_to(tmp_path / "beside")
    (root / "digests.json").unlink()

    assert verify_package(root).differences == ()


def test_an_asset_that_holds_a_link_cannot_be_compared(root: Path) -> None:
    folder = _with_asset(root, b"weights", is_declared=True)
    (root / folder / "link").symlink_to("w.bin")
    (root / "digests.json").unlink()

    report = verify_package(root)

    assert differences(report) == {folder: "unreadable"}
    assert "cannot be compared: " in report.differences[0].message
    assert report.exit_code == 64 + 128


def test_without_digests_several_assets_are_counted(root: Path) -> None:
    (root / "digests.json").unlink()
    _with_asset(root, b"weights", is_declared=False)
    (root / "shared_assets" / asset_folder_name(f"sha256:{'0' * 64}")).mkdir()

    (note,) = verify_package(root).notes

    assert note.endswith(
        "nothing but 2 shared assets can be compared: 1 not as the digests say that name them"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"weights",
            "nothing but 1 shared asset can be compared: as the digest says that names it",
        ),
        (
            b"others",
            "nothing but 1 shared asset can be compared: 1 not as the digest says that names it",
        ),
        (None, "nothing can be compared"),
    ],
)
def test_without_digests_it_says_what_was_compared(
    root: Path, content: bytes | None, said: str
) -> None:
    (root / "digests.json").unlink()
    if content is not None:
        _with_asset(root, content, is_declared=False)

    report = verify_package(root)

    assert report.notes == (f"unverified: there is no digests.json, so {said}",)
    assert not report.is_complete
