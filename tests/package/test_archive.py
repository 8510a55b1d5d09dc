"""Packing and unpacking: reproducible, verified, all or nothing, in little memory."""

from __future__ import annotations

import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from ortpkg.foundations.errors import AuthoringError, DigestMismatchError, PackageNotFoundError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import hash_file
from ortpkg.package.archive.archive_reader import open_archive
from ortpkg.package.archive.package_archive import ArchiveSource, pack_package, unpack_package
from ortpkg.package.changes.repair import repair_package
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.integrity.verification import verify_package
from tests.package.failing_operations import FailingOperations, Killed, content_of
from tests.package.recorded_files import write_files, write_recorded

FILES = {
    "manifest.json": b'{"model_name": "p"}\n',
    "models/m/a/large.bin": bytes(70_000),
    "models/m/a/model.onnx": b"model of a",
    "models/m/metadata.json": b"{}\n",
    "models/m/ü/empty": b"",
}


def make_package(root: Path, files: dict[str, bytes] = FILES, *, with_digests: bool = True) -> Path:
    return write_recorded(root, files) if with_digests else write_files(root, files)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_package(tmp_path / "p.ortpackage")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "p.ortpkg"


def test_there_and_back_is_the_same_package(root: Path, output: Path, tmp_path: Path) -> None:
    packed = pack_package(root, output)
    unpacked = unpack_package(output, tmp_path / "back")

    assert content_of(tmp_path / "back") == content_of(root)
    assert packed.package_digest == unpacked.package_digest == compute_digests(root).package_digest
    assert (packed.file_count, packed.nbytes) == (len(FILES), sum(map(len, FILES.values())))
    assert packed.is_verified
    assert unpacked.is_verified


def test_the_same_package_gives_the_same_bytes_wherever_and_whenever(
    root: Path, output: Path, tmp_path: Path
) -> None:
    other = make_package(tmp_path / "other", dict(reversed(FILES.items())))
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o755)

    pack_package(root, output)
    pack_package(other, tmp_path / "other.ortpkg")

    assert output.read_bytes() == (tmp_path / "other.ortpkg").read_bytes()


def test_the_bytes_of_an_archive_never_change_between_releases(root: Path, output: Path) -> None:
    pack_package(root, output)

    assert (
        hash_file(output).sha256
        == "1f501b1604e407d3c2b892811465860ab41fad1bc1acb8e82f3753e21b93c5f4"
    )


def test_files_are_sorted_digests_come_last_and_large_files_are_aligned(
    root: Path, output: Path
) -> None:
    pack_package(root, output)

    with zipfile.ZipFile(output) as archive:
        infos = archive.infolist()
        large = archive.getinfo("models/m/a/large.bin")
    assert [info.filename for info in infos] == [*sorted(FILES, key=os.fsencode), "digests.json"]
    assert {(info.date_time, info.external_attr >> 16) for info in infos} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644)
    }
    assert output.read_bytes()[: large.header_offset + 16384].rfind(b"models/m/a/large.bin") < 16384
    content = output.read_bytes()
    assert content.index(bytes(70_000), 16384) == 16384


def test_a_package_without_digests_gets_them_and_is_called_unverified(
    tmp_path: Path, output: Path
) -> None:
    root = make_package(tmp_path / "p", with_digests=False)

    report = pack_package(root, output)

    assert not report.is_verified
    assert not (root / "digests.json").exists()
    assert unpack_package(output, tmp_path / "back").package_digest == report.package_digest
    assert (tmp_path / "back/digests.json").read_bytes() == dump_digests(compute_digests(root))


def test_an_archive_without_digests_is_unpacked_and_called_unverified(
    tmp_path: Path, output: Path
) -> None:
    with zipfile.ZipFile(output, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)

    report = unpack_package(output, tmp_path / "back")

    assert not report.is_verified
    assert (tmp_path / "back/digests.json").read_bytes() == dump_digests(
        compute_digests(tmp_path / "back")
    )


def test_only_an_archive_is_overwritten_and_only_where_that_is_asked_for(
    root: Path, output: Path
) -> None:
    output.write_bytes(b"PK but no archive")
    with pytest.raises(AuthoringError, match="is no packed package: it is not overwritten"):
        pack_package(root, output, overwrite=True)
    assert output.read_bytes() == b"PK but no archive"

    output.unlink()
    pack_package(root, output, overwrite=True)
    packed = output.read_bytes()
    (root / "models/m/a/model.onnx").write_bytes(b"another")
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))
    with pytest.raises(AuthoringError, match="exists already"):
        pack_package(root, output)
    assert output.read_bytes() == packed
    pack_package(root, output, overwrite=True)
    assert output.read_bytes() != packed


def test_a_package_is_replaced_by_an_unpacked_one_only_where_that_is_asked_for(
    root: Path, output: Path, tmp_path: Path
) -> None:
    pack_package(root, output)
    other = make_package(
        tmp_path / "other", {"manifest.json": FILES["manifest.json"], "old": b"old"}
    )
    with pytest.raises(AuthoringError, match="exists already"):
        unpack_package(output, other)
    assert (other / "old").exists()

    unpack_package(output, other, overwrite=True)

    assert content_of(other) == content_of(root)


@pytest.mark.parametrize("name", [*(name for name in FILES if FILES[name]), "digests.json"])
def test_a_damaged_package_is_not_packed(root: Path, output: Path, name: str) -> None:
    content = bytearray((root / name).read_bytes())
    content[content.rindex(b'"') - 1 if name == "digests.json" else 0] ^= (
        1  # a digit of the package's digest
    )
    (root / name).write_bytes(content)

    with pytest.raises(DigestMismatchError, match=name):
        pack_package(root, output)
    assert not output.exists()


def test_missing_and_extra_files_are_named(root: Path, output: Path) -> None:
    (root / "manifest.json").rename(root / "manifest2.json")
    with pytest.raises(
        DigestMismatchError, match=r"records files that are not there: 'manifest.json'"
    ):
        pack_package(root, output)

    make_package(root, {"manifest.json": FILES["manifest.json"]}, with_digests=False)
    with pytest.raises(DigestMismatchError, match=r"does not record all files: 'manifest2.json'"):
        pack_package(root, output)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a:b": b""}, r"'a:b' holds ':', which Windows does not allow in names: rename it"),
        (
            {"x/Model": b"", "x/model": b""},
            r"'x/Model' and 'x/model' are the same file on some systems",
        ),
        ({"/".join(["x"] * 40): b""}, "is nested deeper than 32 folders"),
    ],
)
def test_what_cannot_be_unpacked_everywhere_is_not_packed(
    tmp_path: Path, output: Path, files: dict[str, bytes], message: str
) -> None:
    root = make_package(tmp_path / "p", FILES | files, with_digests=False)
    if len(files) == 2 and len(list((root / "x").iterdir())) == 1:
        pytest.skip("the file system does not tell case")
    with pytest.raises(AuthoringError, match=message):
        pack_package(root, output)


def test_a_link_is_not_packed(root: Path, output: Path) -> None:
    (root / "manifest.json").rename(root.parent / "manifest.json")
    (root / "manifest.json").symlink_to(root.parent / "manifest.json")

    with pytest.raises(AuthoringError, match="is a symbolic link"):
        pack_package(root, output)
    assert not output.exists()


def test_a_file_that_grows_while_it_is_packed_is_noticed(root: Path, output: Path) -> None:
    def grow(name: str, done: int, total: int) -> None:
        with (root / "models/m/a/large.bin").open("ab") as stream:
            stream.write(b"x")

    with pytest.raises(AuthoringError, match=r"large.bin' was changed while it was being packed"):
        pack_package(root, output, progress=grow)
    assert not output.exists()


def test_nothing_that_exists_is_overwritten(root: Path, output: Path, tmp_path: Path) -> None:
    output.write_bytes(b"mine")
    with pytest.raises(AuthoringError, match=r"p.ortpkg' exists already; choose another name"):
        pack_package(root, output)
    output.unlink()
    pack_package(root, output)
    with pytest.raises(AuthoringError, match=r"p.ortpackage' exists already"):
        unpack_package(output, root)
    (tmp_path / "empty").mkdir()
    assert unpack_package(output, tmp_path / "empty").is_verified


def test_what_appears_meanwhile_is_not_overwritten(root: Path, output: Path) -> None:
    def appear(*_: object) -> None:
        output.write_bytes(b"mine")

    with pytest.raises(AuthoringError, match="exists already"):
        pack_package(root, output, progress=appear)
    assert output.read_bytes() == b"mine"


def test_the_archive_may_not_lie_in_the_package(root: Path) -> None:
    with pytest.raises(AuthoringError, match="lies in the package itself"):
        pack_package(root, root / "p.ortpkg")


def test_what_is_no_package_is_not_packed(tmp_path: Path, output: Path) -> None:
    with pytest.raises(PackageNotFoundError, match="does not exist"):
        pack_package(tmp_path / "nothing", output)


def test_too_little_space_is_said_before_anything_is_written(
    root: Path, output: Path, tmp_path: Path
) -> None:
    class Full(FailingOperations):
        def free_nbytes(self, directory: Path) -> int:
            return 1000

    pack_package(root, output)
    for command, source in ((pack_package, root), (unpack_package, output)):
        operations = Full()
        with pytest.raises(
            AuthoringError, match=r"not enough space .* bytes needed, and 65536 to spare, 1000 free"
        ):
            command(source, tmp_path / "q", operations=operations)
        assert operations.log == []


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "out of disk space"])
def test_packing_gives_the_whole_archive_or_none(root: Path, output: Path, kill: bool) -> None:
    before = content_of(root)
    counting = FailingOperations()
    pack_package(root, output, operations=counting)
    whole = output.read_bytes()
    output.unlink()

    for index in range(len(counting.log) - 1):  # the last one makes durable what is done
        with pytest.raises((Killed, AuthoringError)):
            pack_package(root, output, operations=FailingOperations(index, kill=kill))
        assert not output.exists()
        assert content_of(root) == before
        pack_package(root, output)
        assert output.read_bytes() == whole
        output.unlink()
    assert sorted(path.name for path in output.parent.iterdir()) == ["p.ortpackage"]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "out of disk space"])
def test_unpacking_gives_the_whole_package_or_none(
    root: Path, output: Path, tmp_path: Path, kill: bool
) -> None:
    pack_package(root, output)
    back = tmp_path / "back.ortpackage"
    counting = FailingOperations()
    unpack_package(output, back, operations=counting)
    shutil.rmtree(back)

    for index in range(len(counting.log) - 1):  # as above
        with pytest.raises((Killed, AuthoringError)):
            unpack_package(output, back, operations=FailingOperations(index, kill=kill))
        assert not back.exists()
        unpack_package(output, back)
        assert content_of(back) == content_of(root)
        shutil.rmtree(back)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.ortpackage", "p.ortpkg"]


def test_an_interrupted_change_is_undone_before_packing(
    root: Path, output: Path, tmp_path: Path
) -> None:
    (root / ".ortpkg-0123456789abcdef").mkdir()
    (root / ".ortpkg-0123456789abcdef/0").write_bytes(b"leftover")

    pack_package(root, output)

    assert content_of(root).keys() == FILES.keys() | {"digests.json"}


# --- memory ---------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_size_of_files(tmp_path: Path, output: Path) -> None:
    root = make_package(tmp_path / "p", {"manifest.json": b"{}", "w.bin": bytes(48 << 20)})
    tracemalloc.start()
    try:
        pack_package(root, output)
        unpack_package(output, tmp_path / "back")
        assert verify_package(tmp_path / "back").is_intact
        _, peak_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_nbytes < 16 << 20


# --- repairing from an archive --------------------------------------------------------------------


def test_a_package_is_repaired_from_its_archive(root: Path, output: Path) -> None:
    pack_package(root, output)
    before = content_of(root)
    (root / "models/m/a/model.onnx").write_bytes(b"damaged")
    shutil.rmtree(root / "models/m/ü")

    with open_archive(output) as archive:
        report = repair_package(root, ArchiveSource(archive))

    assert report.is_intact
    assert content_of(root) == before


def test_a_damaged_entry_of_an_archive_repairs_nothing(root: Path, output: Path) -> None:
    pack_package(root, output)
    output.write_bytes(output.read_bytes().replace(b"model of a", b"model of b"))
    (root / "models/m/a/model.onnx").write_bytes(b"damaged")

    with open_archive(output) as archive:
        report = repair_package(root, ArchiveSource(archive), operations=FileOperations())

    ((file, reason),) = report.not_repaired
    assert file == "models/m/a/model.onnx"
    assert "is damaged: its CRC-32 is not the one stated" in reason


def test_a_swapped_archive_is_judged_by_what_was_opened(
    root: Path, output: Path, tmp_path: Path
) -> None:
    pack_package(root, output)
    with open_archive(output) as archive:
        output.unlink()
        output.write_bytes(b"another file")
        stream = archive.open("manifest.json")
        assert stream.read(100) == FILES["manifest.json"]
