"""Archives to try a reader with.

The name of each case begins with the verdict: ``accept`` or ``reject``.

The categories are those of the corpora that package installers are tested with: paths, links,
duplicates, headers that disagree, foreign bytes, sizes that lie, bombs, and packages that are not
what their digests.json says.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import (
    PackageDigests,
    PendingChange,
    RecordedFile,
    dump_digests,
)
from tests.package.raw_zip import RawEntry, changed, raw_zip, zip64_end

FILES = {
    "manifest.json": b'{"model_name": "p"}\n',
    "models/m/metadata.json": b"{}\n",
    "models/m/a/model.onnx": bytes(range(256)) * 4,
}


@dataclass(frozen=True)
class ArchiveCase:
    """One archive: its bytes, and for a rejected one a part of what the reader must say."""

    name: str
    content: bytes
    message: str = ""


def digests_of(files: dict[str, bytes], pending: PendingChange | None = None) -> bytes:
    recorded = {name: RecordedFile.of(hash_bytes(content)) for name, content in files.items()}
    return dump_digests(PackageDigests(files=recorded, pending=pending))


def entries_of(files: dict[str, bytes], **values: int) -> list[RawEntry]:
    return [RawEntry(name=name.encode(), data=data, **values) for name, data in files.items()]  # type: ignore[arg-type]


WHOLE = FILES | {"digests.json": digests_of(FILES)}
ENTRIES = entries_of(WHOLE)
MANIFEST = ENTRIES[0]


def with_entry(entry: RawEntry) -> bytes:
    """A sound package with one more entry."""
    return raw_zip([*ENTRIES, entry])


def with_manifest(**values: object) -> bytes:
    """A sound package whose first entry is changed."""
    return raw_zip([changed(MANIFEST, **values), *ENTRIES[1:]])


def by_zipfile(method: int, *, folders: bool = False, zip64: bool = False) -> bytes:
    """As Python's own module writes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        if folders:
            for folder in ("models/", "models/m/"):
                archive.writestr(zipfile.ZipInfo(folder), b"")
        for name, data in WHOLE.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=zip64) as stream:
                stream.write(data)
    return buffer.getvalue()


def _names() -> list[ArchiveCase]:
    bad = {
        "parent": ("../evil", "leads out of its folder"),
        "parent_inside": ("models/../../evil", "leads out of its folder"),
        "parent_backslash": ("..\\evil", "holds a path separator"),
        "absolute": ("/etc/passwd", "is absolute"),
        "drive": ("C:evil", "Windows does not allow"),
        "drive_absolute": ("C:/evil", "Windows does not allow"),
        "unc": ("\\\\server\\share", "holds a path separator"),
        "double_slash": ("//server/share", "is absolute"),
        "device": ("models/NUL.txt", "is a device's name on Windows"),
        "device_superscript": ("COM¹", "is a device's name on Windows"),
        "stream": ("model.onnx:hidden", "Windows does not allow"),
        "trailing_dot": ("manifest.json.", "ends with a dot or a space"),
        "trailing_space": ("models /x", "ends with a dot or a space"),
        "dot": ("./x", "is a folder's name for itself"),
        "dot_inside": ("models/./x", "is a folder's name for itself"),
        "empty_segment": ("models//x", "is empty"),
        "empty": ("", "is empty"),
        "nul": ("x\0.json", "holds control characters"),
        "escape": ("x\x1b[2J", "holds control characters"),
        "line_feed": ("x\ny", "holds control characters"),
        "right_to_left": ("x\u202egpj.exe", "holds control characters"),
        "long_segment": ("x" * 256, "has a name of more than 255 bytes"),
        "long_path": ("/".join(["x" * 200] * 6), "is longer than 1024 bytes"),
        "deep": ("/".join(["x"] * 33), "is nested deeper than 32 folders"),
        "staging": (".ortpkg-0123456789abcdef", "has a name of ortpkg's own"),
    }
    cases = [
        ArchiveCase(
            f"reject_name_{name}", with_entry(RawEntry(name=text.encode(), data=b"x")), message
        )
        for name, (text, message) in bad.items()
    ]
    undecodable = {
        "invalid_utf8": (b"caf\xe9", 0x0800),
        "overlong_utf8": (b"..\xc0\xafevil", 0x0800),
        "surrogate": ("\udce9".encode("utf-8", "surrogatepass"), 0x0800),
        "unmarked": ("café".encode(), 0),
    }
    for name, (raw, flags) in undecodable.items():
        entry = RawEntry(name=raw, flags=flags)
        cases.append(
            ArchiveCase(
                f"reject_name_{name}", with_entry(entry), "whose name is not marked as UTF-8"
            )
        )
    return cases


def _collisions() -> list[ArchiveCase]:
    pairs = {
        "twice": ["x", "x"],
        "case": ["x/Model.onnx", "x/model.onnx"],
        "case_of_folder": ["X/a", "x/b"],
        "sharp_s": ["straße", "STRASSE"],
        "composition": ["caf\u00e9", "cafe\u0301"],
        "composition_and_case": ["CAF\u00c9", "cafe\u0301"],
        "file_and_folder": ["x", "x/y"],
        "folder_and_file": ["x/y", "x"],
        "file_and_folder_case": ["x", "X/y"],
        "folder_entry_and_file": ["x/", "x"],
        "folder_entry_case": ["X/", "x/y"],
    }
    return [
        ArchiveCase(
            f"reject_collision_{name}",
            raw_zip([*ENTRIES, *(RawEntry(name=each.encode(), attributes=0) for each in names)]),
            "are the same file on some systems",
        )
        for name, names in pairs.items()
    ] + [
        ArchiveCase(
            "reject_collision_folder_entry_twice",
            raw_zip([*ENTRIES, *[RawEntry(name=b"x/", attributes=0)] * 2]),
            "has an entry for a folder twice",
        )
    ]


def _kinds() -> list[ArchiveCase]:
    kinds = {
        "symbolic_link": (0o120777 << 16, "is a link, a device"),
        "character_device": (0o020666 << 16, "is a link, a device"),
        "block_device": (0o060666 << 16, "is a link, a device"),
        "pipe": (0o010644 << 16, "is a link, a device"),
        "socket": (0o140644 << 16, "is a link, a device"),
        "folder_mode": (0o040755 << 16, "is a link, a device"),
        "folder_attribute": (0x10, "a folder by its attributes"),
    }
    flags = {
        "encrypted": (0x0801, "is encrypted"),
        "strongly_encrypted": (0x0841, "is encrypted"),
        "data_descriptor": (0x0808, "states its size after its data"),
        "patch": (0x0820, "is a patch"),
        "masked": (0x2800, "hides its header"),
        "unknown": (0x4800, "has unknown flags"),
    }
    methods = {"bzip2": 12, "lzma": 14, "zstandard": 93, "deflate64": 9, "imploded": 6}
    return [
        *(
            ArchiveCase(f"reject_kind_{name}", with_manifest(attributes=a), message)
            for name, (a, message) in kinds.items()
        ),
        *(
            ArchiveCase(f"reject_flag_{name}", with_manifest(flags=flag), message)
            for name, (flag, message) in flags.items()
        ),
        *(
            ArchiveCase(
                f"reject_method_{name}", with_manifest(method=m), f"is compressed by method {m}"
            )
            for name, m in methods.items()
        ),
        ArchiveCase(
            "reject_kind_folder_with_data",
            with_entry(RawEntry(name=b"x/", data=b"x", attributes=0)),
            "with data",
        ),
        ArchiveCase(
            "reject_kind_folder_that_is_a_link",
            with_entry(RawEntry(name=b"x/", attributes=0o120777 << 16)),
            "is a link, a device",
        ),
    ]


def _headers() -> list[ArchiveCase]:
    differ = "has two headers that differ"
    unicode_path = struct.pack("<HHBI", 0x7075, 9, 1, 0) + b"evil"
    zip64 = struct.pack("<HHQQ", 1, 16, 20, 20)
    cases = {
        "name": (with_manifest(local_name=b"Manifest.json"), differ),
        "longer_name": (with_manifest(local_name=b"manifest.json2"), differ),
        "crc": (with_manifest(local={"crc32": 1}), differ),
        "size": (with_manifest(local={"nbytes": 1}), differ),
        "compressed_size": (with_manifest(local={"compressed_nbytes": 1}), differ),
        "method": (with_manifest(local={"method": 8}), differ),
        "flags": (with_manifest(local={"flags": 0}), differ),
        "unicode_path_extra": (with_manifest(extra=unicode_path), "another name (Unicode path)"),
        "unicode_path_local_extra": (
            with_manifest(local_extra=unicode_path),
            "another name (Unicode path)",
        ),
        "aes_extra": (
            with_manifest(extra=struct.pack("<HH", 0x9901, 0)),
            "an extra field with encryption",
        ),
        "repeated_extra": (
            with_manifest(extra=struct.pack("<HH", 0x5455, 0) * 2),
            "damaged or repeated extra",
        ),
        "cut_extra": (with_manifest(extra=b"UT\x05"), "damaged extra"),
        "long_extra": (
            with_manifest(extra=struct.pack("<HH", 0x5455, 9)),
            "damaged or repeated extra",
        ),
        "zip64_beside_sizes": (with_manifest(extra=zip64), "has 64-bit sizes beside others"),
        "zip64_missing": (with_manifest(nbytes=0xFFFFFFFF), "lacks the 64-bit sizes"),
        "zip64_local_only_half": (
            with_manifest(local={"nbytes": 0xFFFFFFFF}, local_extra=zip64),
            "beside others",
        ),
        "comment": (with_manifest(comment=b"x"), "has a comment"),
        "disk": (with_manifest(disk=1), "on another disk"),
    }
    return [
        ArchiveCase(f"reject_header_{name}", content, message)
        for name, (content, message) in cases.items()
    ]


def _layout() -> list[ArchiveCase]:
    whole = raw_zip(ENTRIES)
    count = len(ENTRIES)
    directory = whole.index(b"PK\x01\x02")
    nbytes = len(whole) - 22 - directory
    shifted = [
        changed(entry, before=b"?" if index == 2 else b"") for index, entry in enumerate(ENTRIES)
    ]
    nested = raw_zip([RawEntry(name=b"x", data=b"y")])
    end = "does not end with the end of an archive"
    cases = {
        "empty": (b"", "is too short"),
        "text": (b"this is no archive at all, however long", end),
        "prefix": (raw_zip(ENTRIES, prefix=b"#!/bin/sh\n"), "has foreign bytes before it"),
        "prefix_not_counted": (
            b"#!/bin/sh\n" + whole,
            "bytes between its directory and its end, or before",
        ),
        "trailing": (whole + b"x", end),
        "trailing_archive": (whole + nested, "bytes between its directory and its end, or before"),
        "comment": (raw_zip(ENTRIES, comment=b"hello"), end),
        "comment_with_an_archive": (
            raw_zip(ENTRIES, comment=nested),
            "bytes between its directory",
        ),
        "gap": (raw_zip(shifted), "has foreign bytes before it"),
        "before_directory": (
            raw_zip(ENTRIES, before_directory=b"?"),
            "foreign bytes before its directory",
        ),
        "after_directory": (
            raw_zip(ENTRIES, after_directory=b"?"),
            "bytes between its directory and its end",
        ),
        "same_data_twice": (
            with_entry(changed(MANIFEST, name=b"x", offset=0)),
            "overlaps another one",
        ),
        "inside_another": (with_entry(RawEntry(name=b"x", offset=40)), "overlaps another one"),
        "beyond_the_end": (
            with_entry(RawEntry(name=b"x", offset=10**6)),
            "has foreign bytes before it",
        ),
        "into_the_directory": (
            raw_zip([changed(e, nbytes=999, compressed_nbytes=999) for e in ENTRIES[:1]]),
            "into the directory",
        ),
        "unlisted_entry": (
            raw_zip(ENTRIES, before_directory=nested[: nested.index(b"PK\x01\x02")]),
            "before its directory",
        ),
        "count_too_small": (
            raw_zip(ENTRIES, count=count - 1, count_here=count - 1),
            "more in its directory",
        ),
        "count_too_large": (
            raw_zip(ENTRIES, count=count + 1, count_here=count + 1),
            "damaged directory",
        ),
        "counts_differ": (raw_zip(ENTRIES, count_here=1), "several files"),
        "disks": (raw_zip(ENTRIES, disk=1), "several files"),
        "directory_elsewhere": (
            raw_zip(ENTRIES, offset=directory - 1),
            "bytes between its directory",
        ),
        "no_header": (b"XX" + whole[2:], "has no header where the directory says"),
        "truncated_end": (whole[:-1], end),
        "truncated_directory": (whole[:-100], end),
        "zip64_missing": (
            raw_zip(ENTRIES, count=0xFFFF, count_here=0xFFFF),
            "lacks the 64-bit record",
        ),
        "zip64_differs": (
            raw_zip(ENTRIES, after_directory=zip64_end(count - 1, nbytes, directory)),
            "two end records that differ",
        ),
        "zip64_elsewhere": (
            raw_zip(ENTRIES, after_directory=zip64_end(count, nbytes, directory, place=0)),
            "in another place",
        ),
        "zip64_with_more": (
            raw_zip(ENTRIES, after_directory=zip64_end(count, nbytes, directory, size=45)),
            "damaged 64-bit end record",
        ),
    }
    return [
        ArchiveCase(f"reject_layout_{name}", content, message)
        for name, (content, message) in cases.items()
    ]


def _data() -> list[ArchiveCase]:
    zeros = bytes(1 << 21)
    deflated = changed(MANIFEST, method=8)
    cases = {
        "crc": (with_manifest(crc32=1), "its CRC-32 is not the one stated"),
        "stored_with_two_sizes": (with_manifest(nbytes=5), "is stored, but has two sizes"),
        "deflated_longer": (
            raw_zip([changed(deflated, nbytes=10), *ENTRIES[1:]]),
            "does not have the 10 bytes",
        ),
        "deflated_shorter": (
            raw_zip([changed(deflated, nbytes=99), *ENTRIES[1:]]),
            "does not have the 99 bytes",
        ),
        "deflated_garbage": (
            raw_zip([changed(MANIFEST, local={"method": 8}, method=0), *ENTRIES[1:]]).replace(
                b"\x14\x00\x00\x08\x00\x00", b"\x14\x00\x00\x08\x08\x00", 1
            ),
            "",
        ),
        "bomb_of_one_file": (
            with_entry(RawEntry(name=b"bomb", data=zeros, method=8)),
            "more than 100 times as many",
        ),
        "bomb_of_many_files": (
            raw_zip(
                [
                    *ENTRIES,
                    *(RawEntry(name=b"%d" % i, data=zeros[: 1 << 20], method=8) for i in range(9)),
                ]
            ),
            "more than 100 times as many",
        ),
    }
    return [
        ArchiveCase(f"reject_data_{name}", content, message)
        for name, (content, message) in cases.items()
    ]


def _packages() -> list[ArchiveCase]:
    without_manifest = {name: data for name, data in FILES.items() if name != "manifest.json"}
    pending = PendingChange(
        commit_document="manifest.json", committed_digest="0" * 64, adds=("models",)
    )
    flipped = FILES | {"models/m/a/model.onnx": b"\1" + FILES["models/m/a/model.onnx"][1:]}
    digests = digests_of(FILES)
    wrong_sum = json.loads(digests) | {"package": "0" * 64}

    def package(files: dict[str, bytes], record: bytes) -> bytes:
        return raw_zip(entries_of(files | {"digests.json": record}))

    cases = {
        "no_manifest": (
            package(without_manifest, digests_of(without_manifest)),
            "holds no model package",
        ),
        "in_a_folder": (
            raw_zip([changed(e, name=b"p/" + e.name) for e in ENTRIES]),
            "holds no model package",
        ),
        "nothing": (raw_zip([]), "holds no model package"),
        "flipped_byte": (package(flipped, digests), "'models/m/a/model.onnx' of"),
        "missing_file": (
            package(without_manifest | {"manifest.json": b""}, digests_of(WHOLE)),
            "not there: 'digests.json'",
        ),
        "extra_file": (package(FILES | {"x": b""}, digests), "does not record all files: 'x'"),
        "change_pending": (package(FILES, digests_of(FILES, pending)), "was being changed"),
        "digests_broken": (package(FILES, b"{"), "digests.json: is not valid JSON"),
        "digests_that_do_not_add_up": (
            package(FILES, (json.dumps(wrong_sum, indent=2) + "\n").encode()),
            "do not add up",
        ),
        "digests_with_a_bad_path": (
            package(FILES, digests.replace(b"models/m/metadata.json", b"../../m/metadata.json")),
            "is not a plain relative path",
        ),
    }
    return [
        ArchiveCase(f"reject_package_{name}", content, message)
        for name, (content, message) in cases.items()
    ]


def _accepted() -> list[ArchiveCase]:
    timestamps = struct.pack("<HHBI", 0x5455, 5, 1, 0) + struct.pack("<HH", 0x7875, 0)
    whole = raw_zip(ENTRIES)
    directory = whole.index(b"PK\x01\x02")
    end = zip64_end(len(ENTRIES), len(whole) - 22 - directory, directory)
    cases = {
        "stored": raw_zip(ENTRIES),
        "deflated": raw_zip(entries_of(WHOLE, method=8)),
        "made_on_dos": raw_zip(entries_of(WHOLE, attributes=0x20)),
        "ascii_names_without_mark": raw_zip(entries_of(WHOLE, flags=0)),
        "in_another_order": raw_zip(ENTRIES[::-1]),
        "with_timestamps": with_manifest(extra=timestamps, local_extra=timestamps),
        "with_a_64_bit_end": raw_zip(ENTRIES, after_directory=end),
        "by_zipfile_stored": by_zipfile(zipfile.ZIP_STORED),
        "by_zipfile_deflated": by_zipfile(zipfile.ZIP_DEFLATED),
        "by_zipfile_with_folders": by_zipfile(zipfile.ZIP_DEFLATED, folders=True),
        "by_zipfile_zip64": by_zipfile(zipfile.ZIP_STORED, zip64=True),
    }
    return [ArchiveCase(f"accept_{name}", content) for name, content in cases.items()]


_GROUPS: Sequence[Callable[[], list[ArchiveCase]]] = (
    _accepted, _names, _collisions, _kinds, _headers, _layout, _data, _packages,
)  # fmt: skip
CASES: tuple[ArchiveCase, ...] = tuple(case for group in _GROUPS for case in group())
