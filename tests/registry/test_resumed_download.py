"""Downloads take the bytes that were asked for, in whatever pieces they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from ortpkg.distribution.registry.http_retries import Clock, RetryPolicy
from ortpkg.distribution.registry.http_transport import Answer, HttpTransport
from ortpkg.distribution.registry.resumed_download import ResumedDownload
from ortpkg.foundations.errors import RegistryError


class _Answer:
    """Answer whose body comes in given pieces.

    Args:
        pieces: the body.
        nbytes: Content-Length; None if there is none.
    """

    status = 200
    host = "registry.example"

    def __init__(self, pieces: Sequence[bytes], nbytes: int | None) -> None:
        self._pieces = pieces
        self.nbytes = nbytes

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces."""
        return iter(self._pieces)

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def _read(pieces: Sequence[bytes], nbytes: int | None) -> bytes:
    transport = HttpTransport(
        clock=Clock(now_s=lambda: 0.0, sleep=lambda _: None), policy=RetryPolicy(most_tries=1)
    )
    download = ResumedDownload(
        lambda _: cast(Answer, _Answer(pieces, nbytes)),
        transport.retries(),
        start=0,
        end=4,
        what="blob",
        wrong_size=lambda _, how: RegistryError(how, registry="registry.example"),
    )
    with download.opened() as chunks:
        return b"".join(chunks)


@pytest.mark.parametrize("pieces", [[b"abcd"], [b"ab", b"", b"cd"], [b"abcd", b""]])
@pytest.mark.parametrize("nbytes", [None, 4])
def test_pieces_of_any_size_are_taken(pieces: list[bytes], nbytes: int | None) -> None:
    assert _read(pieces, nbytes) == b"abcd"


@pytest.mark.parametrize("pieces", [[b"abcde"], [b"abcd", b"e"], [b"abc", b"de"]])
def test_bytes_after_the_last_one_are_refused_where_no_length_is_said(pieces: list[Any]) -> None:
    with pytest.raises(RegistryError, match="sends more"):
        _read(pieces, None)
