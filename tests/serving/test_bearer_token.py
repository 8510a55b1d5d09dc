"""Where a token comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.scale.serving.bearer_token import read_token


@pytest.mark.parametrize("text", ["abc", "abc\n", "a-b._~+/c==\r\n"])
def test_a_token_stands_alone_in_its_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(text.encode())
    assert read_token(file) == text.strip()


@pytest.mark.parametrize("text", ["", "\n", "two words", "two\nlines", "ü", "a" * 5000, "=", "a=b"])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(text.encode())
    with pytest.raises(UsageError, match="token"):
        read_token(file)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(tmp_path / "none")
