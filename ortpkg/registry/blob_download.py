"""A blob as it comes from a registry: from any byte on, and on from where a connection broke off.

Source: OCI distribution specification 1.1, "Pulling blobs"; RFC 9110, 14 (ranges).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ortpkg.errors import ArtifactFormatError, RegistryError, RegistryUnreachableError
from ortpkg.registry.descriptors import Descriptor
from ortpkg.registry.http_transport import Answer
from ortpkg.registry.registry_answers import refusal
from ortpkg.registry.registry_client import RegistryClient
from ortpkg.registry.repository import RangeNotSupportedError

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(?:\d{1,18}|\*)")
#: A connection that brought as much as this brought the work on.
_LEAST_PROGRESS_NBYTES = 64 * 1024
#: However much each of them brings, a blob is not fetched by more connections.
_MOST_CONNECTIONS = 1000


class BlobDownload:
    """One blob, read once.

    Args:
        client: the registry.
        path: the blob's, of the API.
        scopes: what a token must allow.
        descriptor: what it is.
        offset: the first byte that is wanted.
        what: what messages call it.
    """

    def __init__(
        self,
        client: RegistryClient,
        path: str,
        scopes: tuple[str, ...],
        descriptor: Descriptor,
        offset: int,
        what: str,
    ) -> None:
        self._client = client
        self._path = path
        self._scopes = scopes
        self._descriptor = descriptor
        self._offset = self._position = offset
        self._what = what
        self._retries = client.retries()

    @contextmanager
    def opened(self) -> Iterator[Iterator[bytes]]:
        """The chunks, once the registry has begun to answer."""
        if self._position >= self._descriptor.nbytes:
            yield iter(())
            return
        answer = self._asked()
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
                if self._position == self._descriptor.nbytes:
                    return
                raise self._wrong_size(answer, f"ends it after {self._position}")
            except RegistryUnreachableError as error:
                if self._position - began >= _LEAST_PROGRESS_NBYTES:
                    self._retries.progressed()
                if error.is_lasting or not self._retries.wait():
                    raise
            answer = self._asked()
        raise RegistryError(
            f"{self._what}: not whole after {_MOST_CONNECTIONS} connections",
            registry=str(self._client.host),
        )

    def _pieces(self, answer: Answer) -> Iterator[bytes]:
        """What the answer has beyond the position, and never more than there is to be."""
        skipped = self._position if answer.status == 200 else 0
        for chunk in answer.chunks():
            if skipped:
                dropped = min(skipped, len(chunk))
                skipped -= dropped
                chunk = chunk[dropped:]
            room = self._descriptor.nbytes - self._position
            if len(chunk) > room:
                raise self._wrong_size(answer, "sends more")
            if chunk:
                self._position += len(chunk)
                yield chunk
            if self._position == self._descriptor.nbytes and answer.nbytes is not None:
                return

    def _asked(self) -> Answer:
        """An answer that has what is wanted: 206 from the position on, or 200 with all of it."""
        headers = {"Range": f"bytes={self._position}-"} if self._position else {}
        answer = self._client.open("GET", self._path, scopes=self._scopes, headers=headers)
        try:
            self._check(answer)
        except BaseException:
            answer.close()
            raise
        return answer

    def _check(self, answer: Answer) -> None:
        whole = self._descriptor.nbytes
        if (encoding := answer.header("Content-Encoding")) not in {None, "", "identity"}:
            raise ArtifactFormatError(
                f"{self._what}: {answer.host} sends it in the encoding {encoding!r:.40}, which was"
                " not asked for",
                registry=answer.host,
                layer=self._descriptor.digest,
            )
        if answer.status == 206 and self._position:
            match = _RANGE.fullmatch(answer.header("Content-Range") or "")
            if match is None or int(match[1]) != self._position or int(match[2]) >= whole:
                raise self._wrong_size(answer, "sends another part than was asked for")
            expected = whole - self._position
        elif answer.status == 200:
            if self._offset:  # the caller may have what comes before; it decides
                raise RangeNotSupportedError(
                    f"{self._what}: {answer.host} sends it from its beginning only"
                )
            expected = whole
        elif answer.status == 416:
            raise self._wrong_size(answer, f"has no byte {self._position}")
        else:
            raise refusal(answer, self._what)
        if answer.nbytes is not None and answer.nbytes > expected:
            raise self._wrong_size(answer, f"sends {answer.nbytes} more")
        if answer.nbytes is not None and answer.nbytes < expected and answer.status == 200:
            raise self._wrong_size(answer, f"sends {answer.nbytes}")

    def _wrong_size(self, answer: Answer, how: str) -> ArtifactFormatError:
        return ArtifactFormatError(
            f"{self._what}: has {self._descriptor.nbytes} bytes by its manifest, but {answer.host}"
            f" {how}",
            registry=answer.host,
            layer=self._descriptor.digest,
            status=answer.status,
        )
