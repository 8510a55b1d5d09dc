"""HTTP download that continues after a broken connection with a new one.

Source: RFC 9110, 14 (ranges).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ortpkg.distribution.registry.http_retries import Retries
from ortpkg.distribution.registry.http_transport import Answer
from ortpkg.foundations.errors import RegistryError, RegistryUnreachableError

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
#: A connection that delivered at least this much counts as progress.
_LEAST_PROGRESS_NBYTES = 64 * 1024
#: Most connections for one download, whatever progress each of them makes.
_MOST_CONNECTIONS = 1000


class ResumedDownload:
    """Download from a server; each object reads its bytes once.

    Args:
        ask: Requests the bytes from an offset on and checks the answer: 206 with the bytes from
            there, or 200 with all of them.
        retries: Number of tries without progress.
        start, end: First byte, and the byte after the last; ``end`` is None if the size is unknown.
        what: Name of the download in messages.
        wrong_size: Returns the error for an answer with too few or too many bytes.
    """

    def __init__(
        self,
        ask: Callable[[int], Answer],
        retries: Retries,
        *,
        start: int,
        end: int | None,
        what: str,
        wrong_size: Callable[[Answer, str], RegistryError],
    ) -> None:
        self._ask = ask
        self._retries = retries
        self._position = start
        self._end = end
        self._what = what
        self._wrong_size = wrong_size

    @contextmanager
    def opened(self) -> Iterator[Iterator[bytes]]:
        """Yield the chunks, once there is an answer."""
        if self._position == self._end:
            yield iter(())
            return
        answer = self._ask(self._position)
        chunks = self._chunks(answer)
        try:
            yield chunks
        finally:
            chunks.close()  # type: ignore[attr-defined]  # a generator: closes the connection
            answer.close()

    def _chunks(self, answer: Answer) -> Iterator[bytes]:
        for _ in range(_MOST_CONNECTIONS):
            began = self._position
            try:
                with answer:
                    yield from self._pieces(answer)
                if self._end is None or self._position == self._end:
                    return
                raise self._wrong_size(answer, f"ends it after {self._position}")
            except RegistryUnreachableError as error:
                if self._position - began >= _LEAST_PROGRESS_NBYTES:
                    self._retries.progressed()
                if error.is_lasting or not self._retries.wait():
                    raise
            answer = self._ask(self._position)
        raise RegistryError(
            f"{self._what}: not whole after {_MOST_CONNECTIONS} connections", registry=answer.host
        )

    def _pieces(self, answer: Answer) -> Iterator[bytes]:
        """Yield the bytes of an answer from the position on, and never more than expected."""
        skipped = self._position if answer.status == 200 else 0
        for chunk in answer.chunks():
            if skipped:
                dropped = min(skipped, len(chunk))
                skipped -= dropped
                chunk = chunk[dropped:]
            if self._end is not None and len(chunk) > self._end - self._position:
                raise self._wrong_size(answer, "sends more")
            if chunk:
                self._position += len(chunk)
                yield chunk
            if self._position == self._end and answer.nbytes is not None:
                return


def part_of(answer: Answer) -> tuple[int, int, int | None] | None:
    """Return the first byte, the last byte and the total size (or None) of an answer of status 206.

    Returns None if the answer does not say.
    """
    match = _RANGE.fullmatch(answer.header("Content-Range") or "")
    if match is None:
        return None
    return int(match[1]), int(match[2]), None if match[3] == "*" else int(match[3])


def foreign_encoding(answer: Answer) -> str | None:
    """Return the Content-Encoding of an answer; None if the bytes are plain, as requested."""
    encoding = answer.header("Content-Encoding")
    return None if encoding in {None, "", "identity"} else encoding
