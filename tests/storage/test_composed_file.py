"""Files that are made of bytes and ranges of other files, read in steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange, Zeros


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_it_is_the_same_in_steps_of_any_size(tmp_path: Path, step: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789abcdef")
    composed = ComposedFile((b"head ", FileRange(source, 3, 9), Zeros(2), FileRange(source, 1, 3)))
    with composed.open() as stream:
        content = b"".join(iter(lambda: stream.read(step), b""))
    assert content == b"head 3456789ab\0\x00123"
    assert composed.nbytes == len(content)
