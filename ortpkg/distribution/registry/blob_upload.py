"""Upload of one blob to a registry: start, send, resume after a break, and close.

Source: OCI distribution specification 1.1, "Pushing blobs". A blob is sent as the stream of one
PATCH request, as Docker does, and not in the numbered chunks that the specification also has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO
from urllib.parse import urlencode

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.http_connections import CHUNK_NBYTES
from ortpkg.distribution.registry.http_retries import RETRIED_STATUSES, Retries, retry_after_s
from ortpkg.distribution.registry.http_transport import Answer
from ortpkg.distribution.registry.registry_answers import is_wrong_digest, refusal
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.foundations.errors import LayerMismatchError, RegistryError, RegistryUnreachableError

Progress = Callable[[int], None]

#: A blob of at most this size goes along with the request that closes its upload.
_MOST_AT_ONCE_NBYTES = 1 << 20
_LEAST_PROGRESS_NBYTES = 64 * 1024
#: The registry has forgotten the upload, or expects another offset.
_FORGOTTEN_STATUSES = frozenset({404, 416})
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,18})")
_HEADERS = {"Content-Type": "application/octet-stream"}


class _AgainError(Exception):
    """Request of the registry to try again later, in ``wait_s`` seconds."""

    def __init__(self, refused: RegistryError, wait_s: float | None) -> None:
        super().__init__(refused)
        self.refused = refused
        self.wait_s = wait_s


class _ContentError(Exception):
    """Error of the content to send, unreadable or wrong, and not of the connection."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class BlobUpload:
    """Upload of one blob; each object writes its blob once.

    Args:
        client: Client of the registry.
        path: ``/v2/<repository>/blobs/``.
        scopes: Scopes that the token needs.
        descriptor: Descriptor of the blob.
        open_content: See ``Repository.write_blob``.
        progress: See ``Repository.write_blob``; bytes that are sent twice count once.
        what: Name of the blob in messages.
    """

    def __init__(
        self,
        client: RegistryClient,
        path: str,
        scopes: tuple[str, ...],
        descriptor: Descriptor,
        open_content: Callable[[], BinaryIO],
        progress: Progress | None,
        what: str,
    ) -> None:
        self._client = client
        self._path = path
        self._scopes = scopes
        self._descriptor = descriptor
        self._open_content = open_content
        self._progress = progress
        self._what = what
        self._reported = 0

    def run(self) -> None:
        """Upload the blob; return when the registry has it under its digest.

        Raises:
            LayerMismatchError: The content has another digest; the registry has stored nothing.
        """
        retries = self._client.retries()
        location, position = "", 0
        while True:
            location = location or self._begin()
            reported = self._reported
            try:
                self._send(location, position)
            except _ContentError as error:
                raise error.cause from None
            except (_AgainError, RegistryError) as error:
                if self._reported - reported > _LEAST_PROGRESS_NBYTES:
                    retries.progressed()
                is_forgotten = self._recover(error, retries)
            else:
                return
            if self._is_stored():  # only the answer was lost
                return
            location, position = ("", 0) if is_forgotten else self._resumed(location)

    def _recover(self, error: _AgainError | RegistryError, retries: Retries) -> bool:
        """Wait before the next attempt; return True if the registry has forgotten the upload.

        Raises ``error``, or a more precise one, if there should be no further attempt.
        """
        if isinstance(error, _AgainError):
            if not retries.wait(asked_s=error.wait_s):
                raise error.refused from None
            return False
        if is_wrong_digest(error):
            mismatch = self._mismatch(str(error))
            if mismatch.actual != mismatch.expected or not retries.wait():
                raise mismatch from error
            return True  # the content is right: it changed on the way
        is_forgotten = error.status in _FORGOTTEN_STATUSES
        is_broken = isinstance(error, RegistryUnreachableError) and not error.is_lasting
        if not (is_forgotten or is_broken) or not retries.wait():
            raise error
        return is_forgotten

    def _begin(self) -> str:
        answer = self._client.exchange(
            "POST", f"{self._path}uploads/", scopes=self._scopes, headers={"Content-Length": "0"}
        )
        if answer.status != 202:
            raise refusal(answer.answer, self._what, answer.body)
        return self._client.given_url(answer.answer, answer.header("Location"), self._what)

    def _send(self, location: str, position: int) -> None:
        """Send the missing bytes and close the upload."""
        nbytes = self._descriptor.nbytes
        is_small = nbytes <= _MOST_AT_ONCE_NBYTES and position == 0
        if not is_small and position < nbytes:
            location = self._patch(location, position)
        joint = "&" if "?" in location else "?"
        url = location + joint + urlencode({"digest": self._descriptor.digest})
        length = nbytes if is_small else 0
        with self._client.open(
            "PUT",
            url,
            scopes=self._scopes,
            headers={**_HEADERS, "Content-Length": str(length)},
            open_body=lambda: self._stream(0) if is_small else b"",
            is_repeatable=False,
        ) as answer:
            if answer.status not in {201, 204}:
                raise self._refused(answer)
        self._report(nbytes)

    def _patch(self, location: str, position: int) -> str:
        """Send the missing bytes; return the address that closes the upload."""
        nbytes = self._descriptor.nbytes
        headers = {**_HEADERS, "Content-Length": str(nbytes - position)}
        if position:
            headers["Content-Range"] = f"{position}-{nbytes - 1}"
        with self._client.open(
            "PATCH",
            location,
            scopes=self._scopes,
            headers=headers,
            open_body=lambda: self._stream(position),
            is_repeatable=False,
        ) as answer:
            if answer.status not in {202, 201, 204}:
                raise self._refused(answer)
            return self._client.given_url(answer, answer.header("Location"), self._what)

    def _resumed(self, location: str) -> tuple[str, int]:
        """Return the address and the offset to resume at, or ("", 0) to start again."""
        try:
            answer = self._client.exchange("GET", location, scopes=self._scopes)
            match = _RANGE.fullmatch(answer.header("Range") or "")
            # Some registries say 0-0 both for one byte and for none.
            position = 0 if match is None or match[1] == "0" else int(match[1]) + 1
            if answer.status != 204 or not 0 < position <= self._descriptor.nbytes:
                return "", 0
            url = self._client.given_url(answer.answer, answer.header("Location"), self._what)
        except RegistryUnreachableError:
            raise
        except RegistryError:
            return "", 0
        return url, position

    def _stream(self, position: int) -> Iterator[bytes]:
        """Yield the content from ``position`` on, as it is sent."""
        try:
            with self._open_content() as content:
                content.seek(position)
                left = self._descriptor.nbytes - position
                while left:
                    chunk = content.read(min(left, CHUNK_NBYTES))
                    if not chunk:
                        raise self._mismatch("the content has fewer bytes")
                    yield chunk
                    left -= len(chunk)
                    self._report(self._descriptor.nbytes - left)
                if content.read(1):
                    raise self._mismatch("the content has more bytes")
        except GeneratorExit:
            raise
        except Exception as error:
            raise _ContentError(error) from error

    def _report(self, position: int) -> None:
        if position > self._reported:
            reported, self._reported = self._reported, position
            if self._progress is not None:
                self._progress(position - reported)

    def _is_stored(self) -> bool:
        try:
            path = self._path + self._descriptor.digest
            return self._client.exchange("HEAD", path, scopes=self._scopes).status == 200
        except RegistryUnreachableError:
            raise
        except RegistryError:
            return False

    def _refused(self, answer: Answer) -> Exception:
        error = refusal(answer, self._what)
        if answer.status in RETRIED_STATUSES:
            return _AgainError(error, retry_after_s(answer.header("Retry-After")))
        return error

    def _mismatch(self, reason: str) -> LayerMismatchError:
        """Return the error for content with another digest than stated, with the actual digest."""
        sha256 = hashlib.sha256()
        with self._open_content() as content:
            while chunk := content.read(CHUNK_NBYTES):
                sha256.update(chunk)
        return LayerMismatchError(
            f"{self._what}: {reason}; nothing was written",
            registry=str(self._client.host),
            layer=self._descriptor.digest,
            expected=self._descriptor.digest,
            actual=f"sha256:{sha256.hexdigest()}",
        )
