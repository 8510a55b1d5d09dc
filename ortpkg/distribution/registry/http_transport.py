"""Bounded requests to registries, with repetitions that help and redirects that are safe.

Nothing in an answer makes us send credentials to another origin than theirs, or leave encryption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

import urllib3

from ortpkg.distribution.registry.http_connections import CHUNK_NBYTES, Body, Connections, failure
from ortpkg.distribution.registry.http_retries import (
    RETRIED_STATUSES,
    Clock,
    Retries,
    RetryPolicy,
    retry_after_s,
)
from ortpkg.distribution.registry.secret import Secret
from ortpkg.distribution.registry.timed_answers import reading_for
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    RegistryError,
    RegistryUnreachableError,
    redacted_quotation,
    unquoted,
)
from ortpkg.package.references.http_addresses import next_url, origin, shown_url

ResultT = TypeVar("ResultT")

_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses whose redirect repeats the method and the body (RFC 9110, 15.4).
_REDIRECTS_WITH_METHOD = frozenset({307, 308})
#: Longest time of an answer that is not a blob.
_MOST_ANSWER_S = 300.0
_PIECE_NBYTES = 64 * 1024
_LEAST_CHUNK_NBYTES = 256 * 1024
#: A connection that delivers less in this time counts as broken.
_DRIP_NBYTES, _DRIP_S = 64 * 1024, 60.0
_MOST_DRAINED_NBYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """HTTP request.

    Attributes:
        method, url, headers: As in HTTP.
        authorization: Header that is sent to this address's scheme, host and port only.
        open_body: Returns the body from its beginning, for each try.
        follows_redirects: True if redirects are followed.
        is_repeatable: True if the request may be repeated when the result of the first try is
            unknown.
    """

    method: str
    url: str
    headers: Mapping[str, str] = EMPTY
    authorization: Secret | None = None
    open_body: Callable[[], Body] | None = None
    follows_redirects: bool = True
    is_repeatable: bool = True


class Answer:
    """Head of an answer, and its body as it arrives.

    As a context manager it closes the connection unless the body was read to its end.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str, clock: Clock) -> None:
        self._response = response
        self._clock = clock
        self.status = response.status
        self.url = url

    def header(self, name: str) -> str | None:
        """Return a header's last value, or None if the header is absent."""
        values = self.headers(name)
        return values[-1] if values else None

    def headers(self, name: str) -> list[str]:
        """Return all values of a header."""
        return list(self._response.headers.getlist(name))

    @property
    def nbytes(self) -> int | None:
        """Content-Length, or None if it is absent or not a number."""
        text = self.header("Content-Length") or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None

    @property
    def host(self) -> str:
        """Host and port that answered, for messages."""
        return origin_text(self.url)

    def read(self, most_nbytes: int) -> bytes:
        """Read the whole body.

        Raises:
            ArtifactFormatError: The body has more than ``most_nbytes``.
            RegistryUnreachableError: The body takes too long.
        """
        until_s = self._clock.now_s() + _MOST_ANSWER_S
        late = f"the answer was not whole after {_MOST_ANSWER_S:g} s"
        pieces: list[bytes] = []
        nbytes = 0
        while piece := self._next(_PIECE_NBYTES, until_s, late):
            pieces.append(piece)
            nbytes += len(piece)
            if nbytes > most_nbytes:
                raise ArtifactFormatError(
                    f"{self.host}: the answer has more than {most_nbytes} bytes",
                    registry=self.host,
                    status=self.status,
                )
            if self._clock.now_s() > until_s:
                raise RegistryUnreachableError(f"{self.host}: {late}", registry=self.host)
        return b"".join(pieces)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            RegistryUnreachableError: The connection breaks off or is too slow.
        """
        while True:
            pieces, error = self._pieces()
            if pieces:
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if error is not None:
                raise error
            if not pieces:
                return

    def _pieces(self) -> tuple[list[bytes], RegistryUnreachableError | None]:
        """Return the pieces of the next chunk (none at the end), and the error after them."""
        pieces: list[bytes] = []
        nbytes, until_s = 0, self._clock.now_s() + _DRIP_S
        while nbytes < _LEAST_CHUNK_NBYTES:
            late = f"{nbytes} bytes in {_DRIP_S:g} s are too few"
            if nbytes >= _DRIP_NBYTES:  # the next bytes, or the end, get the same time again
                until_s = self._clock.now_s() + _DRIP_S
            try:
                piece = self._next(CHUNK_NBYTES, until_s, late)
            except RegistryUnreachableError as error:
                return pieces, error
            if not piece:
                break
            pieces.append(piece)
            nbytes += len(piece)
            if nbytes < _DRIP_NBYTES and self._clock.now_s() > until_s:
                late = f"{self.host}: {nbytes} bytes in {_DRIP_S:g} s are too few"
                return pieces, RegistryUnreachableError(late, registry=self.host)
        return pieces, None

    def close(self) -> None:
        """Return the connection to the pool, or close it."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _next(self, most_nbytes: int, until_s: float, late: str) -> bytes:
        """Return the next bytes of the body in time, or b"" at its end."""
        try:
            with reading_for(until_s - self._clock.now_s(), late):
                return self._response.read1(most_nbytes)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise failure(self.host, error) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeAnswer:
    """Answer together with its body."""

    answer: Answer
    body: bytes

    @property
    def status(self) -> int:
        """HTTP status code."""
        return self.answer.status

    def header(self, name: str) -> str | None:
        """Return a header's last value; see :meth:`Answer.header`."""
        return self.answer.header(name)


class HttpTransport:
    """Sends requests; may be used by several threads at once.

    Args:
        policy: Number of tries and pauses.
        clock: Source of time.
        ca_file: See :class:`Connections`.
    """

    def __init__(
        self,
        *,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self.policy = policy or RetryPolicy()
        self.clock = clock or Clock()
        self._connections = Connections(ca_file=ca_file)
        self._reached: set[tuple[str, str, int]] = set()

    def close(self) -> None:
        """Close idle connections; the transport can still be used."""
        self._connections.close()

    def retries(self) -> Retries:
        """Return the tries for an operation of several requests."""
        return Retries(self.policy, self.clock)

    def open(self, request: Request) -> Answer:
        """Return the answer after redirects and repetitions, whatever its status.

        Its body is not read yet.

        Raises:
            RegistryUnreachableError: No answer came.
            RegistryError: A redirect is not followed.
        """
        return self._repeated(request, lambda answer: answer)

    def open_once(self, request: Request) -> Answer:
        """Return the answer to one request, without repetitions and redirects."""
        return self._once(request)

    def exchange(self, request: Request, *, most_nbytes: int) -> WholeAnswer:
        """Return the answer with its body of at most ``most_nbytes``."""

        def read(answer: Answer) -> WholeAnswer:
            with answer:
                body = b"" if request.method == "HEAD" else answer.read(most_nbytes)
            return WholeAnswer(answer=answer, body=body)

        return self._repeated(request, read)

    def _repeated(self, request: Request, use: Callable[[Answer], ResultT]) -> ResultT:
        retries, started_s = self.retries(), self.clock.now_s()
        while True:
            try:
                answer = self._followed(request)
                if answer.status not in RETRIED_STATUSES or not request.is_repeatable:
                    return use(answer)
                asked_s = retry_after_s(answer.header("Retry-After"))
                if not retries.wait(asked_s=asked_s):
                    return use(answer)
                answer.close()
            except RegistryUnreachableError as error:
                if error.is_lasting or not (request.is_repeatable or error.is_unconnected):
                    raise
                # A server that was reached before is restarting: its name and port are right.
                if self.clock.now_s() - started_s > self.policy.most_waiting_s:
                    raise  # one series of slow tries is enough
                is_unknown = error.is_unconnected and origin(request.url) not in self._reached
                if not retries.wait(is_unconnected=is_unknown):
                    raise

    def _followed(self, request: Request) -> Answer:
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._once(request)
            location = answer.header("Location")
            is_redirect = answer.status in _REDIRECTS and request.follows_redirects
            if location is None or not is_redirect:
                return answer
            _drain(answer)
            request = _redirected(request, answer.status, location)
        host = origin_text(request.url)
        raise RegistryError(f"{host}: more than {_MOST_REDIRECTS} redirects", registry=host)

    def _once(self, request: Request) -> Answer:
        headers = dict(request.headers)
        if request.authorization is not None:
            headers["Authorization"] = request.authorization.reveal()
        body = None if request.open_body is None else request.open_body()
        response = self._connections.send(request.method, request.url, headers, body)
        self._reached.add(origin(request.url))
        return Answer(response, request.url, self.clock)


def origin_text(url: str) -> str:
    """Return host and port of an address, for messages."""
    return shown_url(url).split("/")[2]


def _redirected(request: Request, status: int, location: str) -> Request:
    host = origin_text(request.url)
    if request.method not in {"GET", "HEAD"} and status not in _REDIRECTS_WITH_METHOD:
        raise RegistryError(
            f"{host}: redirects a {request.method} with status {status}, which drops its body",
            registry=host,
            status=status,
        )
    try:
        url = next_url(request.url, location)
        is_same = origin(url) == origin(request.url)
    except ValueError as error:
        reason = unquoted(redacted_quotation(str(error)))
        raise RegistryError(
            f"{host}: redirects to an address that is not followed: {reason}",
            registry=host,
            status=status,
        ) from None
    return replace(request, url=url, authorization=request.authorization if is_same else None)


def _drain(answer: Answer) -> None:
    """Read the short body of a redirect, so that the connection can be used again."""
    with answer:
        nbytes = answer.nbytes
        if nbytes is not None and nbytes <= _MOST_DRAINED_NBYTES:
            try:
                answer.read(_MOST_DRAINED_NBYTES)
            except RegistryError:
                return
