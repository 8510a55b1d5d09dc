"""What a compiled blob begins with: read if it is plain text and whole, else unknown."""

from __future__ import annotations

import pytest

from ortpkg.runtime.providers.openvino_requirements import (
    BLOB_MAGIC,
    blob_requirements,
    required_release,
)

TEXT = b"meta=1.0;ov=2026.4.1;isa=Intel AVX2"


def blob(text: bytes, *, length: int | None = None, magic: bytes = BLOB_MAGIC) -> bytes:
    return (
        magic + b"\1\0\0\0" + (len(text) if length is None else length).to_bytes(8, "little") + text
    )


@pytest.mark.parametrize("more", [b"", b"the model"])
@pytest.mark.parametrize("text", [TEXT, b"", b"x" * 4096], ids=["text", "empty", "longest"])
def test_the_text_is_read_up_to_its_length(text: bytes, more: bytes) -> None:
    assert blob_requirements(memoryview(blob(text, length=len(text)) + more)) == text.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        BLOB_MAGIC,
        blob(TEXT, magic=b"RR_UPCVX"),
        blob(TEXT, length=len(TEXT) + 1),
        blob(b"x" * 4097),
        blob(b"x" * 5000),
        blob(TEXT, length=1 << 63),
        blob("ov=2026.4.1;isa=ä".encode()),
        blob(TEXT + b"\n"),
        blob(TEXT + b"\0"),
    ],
    ids=[
        "nothing",
        "magic alone",
        "foreign",
        "cut",
        "too long",
        "longer",
        "huge",
        "no ascii",
        "line",
        "nul",
    ],
)
def test_what_is_no_such_text_says_nothing(data: bytes) -> None:
    assert blob_requirements(data) == ""


def test_the_release_is_one_of_the_fields() -> None:
    assert required_release(TEXT.decode()) == "2026.4.1"
    assert required_release("meta=1.0;isa=ov=7") == required_release("") == ""
