"""File behind HTTP, read in parts if its server supports ranges, else as a whole.

Source: RFC 9110, 13.1.5 (If-Range) and 14 (ranges).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Self

from ortpkg.distribution.registry.http_transport import Answer, HttpTransport, Request
from ortpkg.distribution.registry.remote_file import RemoteFile
from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.registry.resumed_download import ResumedDownload, foreign_encoding, part_of
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    RegistryAuthenticationError,
    RegistryError,
)
from ortpkg.package.references.http_addresses import shown_url


class HttpFile(RemoteFile):
    """File behind a URL; create it with :meth:`opened`, which finds out what the server supports.

    Args:
        transport: Sends the requests.
        url: Address; its query goes to the server and into no message.
        authorization: Header that is sent to this address's host only.
        nbytes: Size of the file, or None if unknown.
        validator: Strong entity tag of this version of the file, or "".
        has_parts: True if the server sends parts.
    """

    def __init__(
        self,
        transport: HttpTransport,
        url: str,
        authorization: Secret | None,
        *,
        nbytes: int | None,
        validator: str,
        has_parts: bool,
    ) -> None:
        self._transport = transport
        self._url = url
        self._authorization = authorization
        self._nbytes = nbytes
        self._validator = validator
        self._has_parts = has_parts

    @classmethod
    def opened(
        cls, transport: HttpTransport, url: str, authorization: Secret | None = None
    ) -> Self:
        """Request one byte of the file and return the file.

        Raises:
            RegistryError: See :class:`RemoteFile`.
        """
        request = Request(
            method="GET", url=url, headers={"Range": "bytes=0-0"}, authorization=authorization
        )
        with transport.open(request) as answer:
            part = part_of(answer) if answer.status == 206 else None
            has_parts = part is not None and part[:2] == (0, 0) and part[2] is not None
            if answer.status not in (200, 206) or (answer.status == 206 and not has_parts):
                raise _refusal(answer, shown_url(url))
            return cls(
                transport,
                url,
                authorization,
                nbytes=part[2] if part is not None else answer.nbytes,
                validator=_validator(answer),
                has_parts=has_parts,
            )

    @property
    def where(self) -> str:
        return shown_url(self._url)

    @property
    def nbytes(self) -> int | None:
        return self._nbytes

    @property
    def has_parts(self) -> bool:
        return self._has_parts

    def read(
        self, start: int = 0, end: int | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        end = self._nbytes if end is None else end
        if not self._has_parts and (start, end) != (0, self._nbytes):
            raise RangeNotSupportedError(f"{self.where}: its server sends no parts of it")
        download = ResumedDownload(
            lambda position: self._request(position, end),
            self._transport.retries(),
            start=start,
            end=end,
            what=self.where,
            wrong_size=self._wrong_size,
        )
        return download.opened()

    def _request(self, position: int, end: int | None) -> Answer:
        """Return an answer with the same version of the file, from the position on or complete."""
        headers = {}
        if self._has_parts:
            headers = {"Range": f"bytes={position}-{'' if end is None else end - 1}"}
            if self._validator:
                headers["If-Range"] = self._validator
        request = Request(
            method="GET", url=self._url, headers=headers, authorization=self._authorization
        )
        answer = self._transport.open(request)
        try:
            self._check(answer, position, end)
        except BaseException:
            answer.close()
            raise
        return answer

    def _check(self, answer: Answer, position: int, end: int | None) -> None:
        if (encoding := foreign_encoding(answer)) is not None:
            raise ArtifactFormatError(
                f"{self.where}: {answer.host} sends it in the encoding {encoding!r:.40}, which was"
                " not asked for",
                registry=answer.host,
            )
        if answer.status not in (200, 206, 412, 416):
            raise _refusal(answer, self.where)
        wanted = 206 if self._has_parts else 200
        part = part_of(answer) if answer.status == 206 else None
        is_part = part == (position, (end or 0) - 1, self._nbytes)
        is_version = self._validator in ("", _validator(answer))
        if answer.status != wanted or (wanted == 206 and not is_part) or not is_version:
            raise RegistryError(
                f"{self.where}: it is another file by now than when it was begun, or"
                f" {answer.host} sends other parts than it is asked for: try again",
                registry=answer.host,
                status=answer.status,
            )
        if wanted == 200 and answer.nbytes != self._nbytes:
            raise self._wrong_size(answer, f"sends {answer.nbytes}")

    def _wrong_size(self, answer: Answer, how: str) -> ArtifactFormatError:
        return ArtifactFormatError(
            f"{self.where}: had {self._nbytes} bytes when it was begun, but {answer.host} {how}",
            registry=answer.host,
            status=answer.status,
        )


def _validator(answer: Answer) -> str:
    """Return the strong entity tag of an answer, or "" if it has none."""
    tag = answer.header("ETag") or ""
    return tag if tag.startswith('"') and len(tag) <= 1024 else ""


def _refusal(answer: Answer, what: str) -> RegistryError:
    status, registry = answer.status, answer.host
    if status in (401, 403):
        return RegistryAuthenticationError(
            f"{what}: {registry} gives it to nobody without credentials, or not to these",
            registry=registry,
            status=status,
        )
    if status in (404, 410):
        return ArtifactNotFoundError(
            f"{what}: {registry} has no such file", registry=registry, status=status
        )
    if status == 416:
        return ArtifactFormatError(f"{what}: it is empty", registry=registry, status=status)
    return RegistryError(
        f"{what}: {registry} answers with status {status}", registry=registry, status=status
    )
