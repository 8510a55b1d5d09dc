"""Download of one blob from a registry, from any byte on; a broken connection is resumed.

Source: OCI distribution specification 1.1, "Pulling blobs"; RFC 9110, 14 (ranges).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.http_transport import Answer
from ortpkg.distribution.registry.registry_answers import refusal
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.registry.resumed_download import ResumedDownload, foreign_encoding, part_of
from ortpkg.foundations.errors import ArtifactFormatError


class BlobDownload:
    """Download of one blob; each object reads its blob once.

    Args:
        client: Client of the registry.
        path: Path of the blob in the API.
        scopes: Scopes that the token needs.
        descriptor: Descriptor of the blob.
        offset: First byte to read.
        what: Name of the blob in messages.
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
        self._offset = offset
        self._what = what

    def opened(self) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that yields the chunks.

        Entering it waits for the registry's first answer.
        """
        nbytes = self._descriptor.nbytes
        download = ResumedDownload(
            self._request,
            self._client.retries(),
            start=min(self._offset, nbytes),
            end=nbytes,
            what=self._what,
            wrong_size=self._wrong_size,
        )
        return download.opened()

    def _request(self, position: int) -> Answer:
        """Return an answer with the wanted bytes.

        Its status is 206 with the bytes from ``position`` on, or 200 with the whole blob.
        """
        headers = {"Range": f"bytes={position}-"} if position else {}
        answer = self._client.open("GET", self._path, scopes=self._scopes, headers=headers)
        try:
            self._check(answer, position)
        except BaseException:
            answer.close()
            raise
        return answer

    def _check(self, answer: Answer, position: int) -> None:
        whole = self._descriptor.nbytes
        if (encoding := foreign_encoding(answer)) is not None:
            raise ArtifactFormatError(
                f"{self._what}: {answer.host} sends it in the encoding {encoding!r:.40}, which was"
                " not asked for",
                registry=answer.host,
                layer=self._descriptor.digest,
            )
        if answer.status == 206 and position:
            part = part_of(answer)
            if part is None or part[0] != position or part[1] >= whole:
                raise self._wrong_size(answer, "sends another part than was asked for")
            expected = whole - position
        elif answer.status == 200:
            if self._offset:  # the caller may have the bytes before; it decides
                raise RangeNotSupportedError(
                    f"{self._what}: {answer.host} sends it from its beginning only"
                )
            expected = whole
        elif answer.status == 416:
            raise self._wrong_size(answer, f"has no byte {position}")
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
