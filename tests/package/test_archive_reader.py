"""The corpus of archives: the verdict in each name, and nothing left of a rejected one."""

from __future__ import annotations

import io
import shutil
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import ArchiveError, OrtpkgError
from ortpkg.package.archive.archive_directory import ArchiveLimits
from ortpkg.package.archive.archive_reader import open_archive
from ortpkg.package.archive.package_archive import unpack_package
from ortpkg.package.archive.zip_format import (
    DirectoryExtent,
    EntryHeader,
    dump_central,
    dump_end,
    dump_local,
    parse_central,
    parse_end,
)
from tests.package.archive_cases import CASES, ENTRIES, WHOLE, ArchiveCase
from tests.package.failing_operations import content_of
from tests.package.raw_zip import RawEntry, raw_zip

LARGE = 5 << 32


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "p.ortpkg"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.startswith("reject")], ids=lambda case: case.name
)
def test_rejects_with_a_reason_and_leaves_nothing(tmp_path: Path, case: ArchiveCase) -> None:
    path = write(tmp_path, case.content)

    with pytest.raises(OrtpkgError) as caught:
        unpack_package(path, tmp_path / "out")

    assert case.message in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["p.ortpkg"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.startswith("accept")], ids=lambda case: case.name
)
def test_accepts_and_extracts_what_is_listed_as_other_readers_do(
    tmp_path: Path, case: ArchiveCase
) -> None:
    path = write(tmp_path, case.content)
    with open_archive(path) as archive:
        listed = {entry.name: entry.nbytes for entry in archive.entries}

    report = unpack_package(path, tmp_path / "out")

    extracted = content_of(tmp_path / "out")
    assert extracted == WHOLE
    assert listed == {name: len(content) for name, content in extracted.items()}
    assert report.is_verified
    with zipfile.ZipFile(io.BytesIO(case.content)) as other:
        assert {
            name: other.read(name) for name in other.namelist() if not name.endswith("/")
        } == extracted


def test_every_verdict_is_in_a_name_once() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) > 100


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_does_not_reach_the_files(
    tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(raw_zip(ENTRIES))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.one_of(st.just(0), st.integers(0, len(content) - 1)))
    path = write(tmp_path, bytes(content[: len(content) - cut]))

    out = tmp_path / "out"
    try:
        unpack_package(path, out)
    except OrtpkgError:
        assert not out.exists()
    else:
        unpacked = content_of(out)
        shutil.rmtree(out)
        assert unpacked == WHOLE


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (ArchiveLimits(entries=3), "has 4 entries; at most 3 are read"),
        (ArchiveLimits(nbytes=100), "at most 100 are unpacked"),
        (ArchiveLimits(directory_nbytes=100), "has a directory of more than 100 bytes"),
    ],
)
def test_limits_are_kept(tmp_path: Path, limits: ArchiveLimits, message: str) -> None:
    with (
        pytest.raises(ArchiveError, match=message),
        open_archive(write(tmp_path, raw_zip(ENTRIES)), limits=limits),
    ):
        pytest.fail("it was opened")


def test_a_document_that_is_too_large_to_be_read_at_once_is_refused(tmp_path: Path) -> None:
    with open_archive(write(tmp_path, raw_zip(ENTRIES))) as archive:
        assert archive.read("manifest.json", most_nbytes=100) == WHOLE["manifest.json"]
        with pytest.raises(ArchiveError, match=r"entry 'manifest.json' has more than 10 bytes"):
            archive.read("manifest.json", most_nbytes=10)


@pytest.mark.parametrize("method", [0, 8], ids=["stored", "deflated"])
def test_data_are_read_in_pieces_of_any_size(tmp_path: Path, method: int) -> None:
    data = bytes(range(256)) * 3000
    with open_archive(
        write(tmp_path, raw_zip([RawEntry(name=b"x", data=data, method=method)]))
    ) as archive:
        stream = archive.open("x")
        assert b"".join(iter(lambda: stream.read(1001), b"")) == data


def test_deflated_data_with_something_after_their_end_are_refused(tmp_path: Path) -> None:
    padded = RawEntry(name=b"x", data=b"abc" * 9, method=8).stored + b"hidden"
    entry = RawEntry(
        name=b"x",
        data=padded,
        crc32=RawEntry(name=b"", data=b"abc" * 9).fields()["crc32"],
        nbytes=27,
    )
    content = raw_zip([entry])
    for signature, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.index(signature) + place
        content = content[:at] + struct.pack("<H", 8) + content[at + 2 :]

    with open_archive(write(tmp_path, content)) as archive:
        stream = archive.open("x")
        assert stream.read(100) == b"abc" * 9
        with pytest.raises(ArchiveError, match=r"entry 'x' has foreign bytes after its data"):
            stream.read(100)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "not a regular file"),
        (tmp_path / "x", "cannot be read: No such file"),
    ):
        with pytest.raises(ArchiveError, match=message), open_archive(path):
            pytest.fail("it was opened")


# --- more than 4 GiB ------------------------------------------------------------------------------


def test_large_entries_are_read_back_as_they_were_written() -> None:
    entries = [
        EntryHeader(name="a", nbytes=LARGE, compressed_nbytes=LARGE, crc32=7),
        EntryHeader(name="b", nbytes=5, compressed_nbytes=5, offset=LARGE + 100),
        EntryHeader(name="c", nbytes=LARGE, compressed_nbytes=LARGE, offset=2 * LARGE),
    ]
    directory = b"".join(map(dump_central, entries))
    assert list(parse_central(directory, 3)) == entries

    place = DirectoryExtent(offset=3 * LARGE, nbytes=len(directory), count=3)
    end = dump_end(place)
    assert parse_end(end, 3 * LARGE + len(directory) + len(end)) == place


def test_many_entries_need_the_64_bit_end() -> None:
    place = DirectoryExtent(offset=0, nbytes=50 * 70_000, count=70_000)
    assert parse_end(dump_end(place), place.nbytes + 98) == place


def test_an_archive_of_more_than_4_gib_is_one_for_other_readers_too(tmp_path: Path) -> None:
    first = EntryHeader(name="large", nbytes=LARGE, compressed_nbytes=LARGE)
    path = tmp_path / "large.zip"
    with path.open("wb") as stream:  # a sparse file: only the headers are written
        stream.write(dump_local(first))
        stream.seek(LARGE, io.SEEK_CUR)
        second = EntryHeader(name="small", offset=stream.tell())
        stream.write(dump_local(second))
        offset = stream.tell()
        directory = dump_central(first) + dump_central(second)
        stream.write(
            directory + dump_end(DirectoryExtent(offset=offset, nbytes=len(directory), count=2))
        )

    with open_archive(path) as archive, zipfile.ZipFile(path) as other:
        assert [(entry.name, entry.nbytes) for entry in archive.entries] == [
            ("large", LARGE),
            ("small", 0),
        ]
        assert [(info.filename, info.file_size) for info in other.infolist()] == [
            ("large", LARGE),
            ("small", 0),
        ]
        assert other.read("small") == b""


@pytest.mark.parametrize(("nbytes", "version"), [(LARGE, 45), (0xFFFF_FFFF, 45), (0xFFFF_FFFE, 20)])
def test_headers_ask_for_a_reader_of_64_bit_sizes_only_where_there_are_some(
    nbytes: int, version: int
) -> None:
    entry = EntryHeader(name="w.bin", nbytes=nbytes, compressed_nbytes=nbytes)
    assert int.from_bytes(dump_local(entry)[4:6], "little") == version
    assert int.from_bytes(dump_central(entry)[6:8], "little") == version
