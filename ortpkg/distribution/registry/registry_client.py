"""Client of one registry: its address, connections and authentication."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ortpkg.distribution.registry.authentication import Authenticator
from ortpkg.distribution.registry.credentials import Credentials, find_credentials
from ortpkg.distribution.registry.http_connections import Body
from ortpkg.distribution.registry.http_retries import Retries
from ortpkg.distribution.registry.http_transport import Answer, HttpTransport, Request, WholeAnswer
from ortpkg.distribution.registry.registry_answers import MOST_ANSWER_NBYTES, refusal
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import (
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachableError,
    unquoted,
)
from ortpkg.package.references.http_addresses import RegistryHost, Scheme, next_url, origin


class RegistryClient:
    """Client of one registry; may be used by several threads and repositories.

    Args:
        host: The registry.
        is_plain_http: True for plain HTTP, False for https. None means https, except on this
            machine, where it is what the server speaks.
        transport: Sends the requests.
        find: Returns the credentials of a key of Docker's config file.
    """

    def __init__(
        self,
        host: RegistryHost,
        *,
        is_plain_http: bool | None = None,
        transport: HttpTransport | None = None,
        find: Callable[[str], Credentials | None] = find_credentials,
    ) -> None:
        self.host = host
        self.transport = transport or HttpTransport()
        self._is_plain_http = is_plain_http
        self._find = find
        self._lock = threading.Lock()
        self._url = ""
        self._authenticator: Authenticator | None = None

    def close(self) -> None:
        """Close idle connections."""
        self.transport.close()

    @property
    def url(self) -> str:
        """Address of the registry, such as ``https://host:port``."""
        with self._lock:
            if not self._url:
                self._url = self.host.url(self._scheme())
            return self._url

    def retries(self) -> Retries:
        """Return the tries for an operation of several requests."""
        return self.transport.retries()

    def open(
        self,
        method: str,
        path: str,
        *,
        scopes: tuple[str, ...] = (),
        headers: Mapping[str, str] = EMPTY,
        open_body: Callable[[], Body] | None = None,
        is_repeatable: bool = True,
    ) -> Answer:
        """Return the answer, authenticated if the registry asks for it; its body is not read yet.

        Args:
            method, headers, open_body, is_repeatable: See :class:`Request`.
            path: Path of the API, or a whole address that the registry gave.
            scopes: Scopes that the token needs.
        """
        request = Request(
            method=method,
            url=path if "://" in path else self.url + path,
            headers=headers,
            open_body=open_body,
            is_repeatable=is_repeatable,
        )
        if origin(request.url) != origin(self.url):  # no secret goes there
            return self.transport.open(request)
        return self._authorized(request, scopes)

    def exchange(
        self,
        method: str,
        path: str,
        *,
        scopes: tuple[str, ...] = (),
        headers: Mapping[str, str] = EMPTY,
        open_body: Callable[[], Body] | None = None,
        most_nbytes: int = MOST_ANSWER_NBYTES,
    ) -> WholeAnswer:
        """Return the answer with its body; a body that breaks off is requested again."""
        retries = self.retries()
        while True:
            answer = self.open(method, path, scopes=scopes, headers=headers, open_body=open_body)
            try:
                with answer:
                    body = b"" if method == "HEAD" else answer.read(most_nbytes)
                return WholeAnswer(answer=answer, body=body)
            except RegistryUnreachableError:
                if not retries.wait():
                    raise

    def given_url(self, answer: Answer, location: str | None, what: str) -> str:
        """Return the address of the next request that an answer names."""
        try:
            if not location:
                raise ValueError("there is none")
            return next_url(answer.url, location)
        except ValueError as error:
            raise RegistryError(
                f"{what}: {answer.host} gives an address that cannot be used: {unquoted(error)}",
                registry=answer.host,
                status=answer.status,
            ) from None

    def try_credentials(self, credentials: Credentials) -> bool:
        """Check credentials at the registry; return False if it asks nobody to authenticate.

        Raises:
            RegistryAuthenticationError: The registry refuses them.
        """
        path = f"{self.url}/v2/"
        plain = self.transport.exchange(
            Request(method="GET", url=path), most_nbytes=MOST_ANSWER_NBYTES
        )
        if plain.status != 401:
            if plain.status not in {200, 404}:
                raise refusal(plain.answer, str(self.host), plain.body)
            return False
        authenticator = Authenticator(str(self.host), self.url, self.transport, lambda: credentials)
        try:
            header = authenticator.answer(plain.answer.headers("WWW-Authenticate"), (), None)
            request = Request(method="GET", url=path, authorization=header)
            answer = self.transport.exchange(request, most_nbytes=MOST_ANSWER_NBYTES)
            if answer.status != 200:
                raise refusal(answer.answer, str(self.host), answer.body)
        except RegistryAuthenticationError as error:
            raise RegistryAuthenticationError(
                f"{self.host} does not take this user name with this password",
                registry=str(self.host),
                status=error.status,
            ) from error
        return True

    def _authorized(self, request: Request, scopes: tuple[str, ...]) -> Answer:
        authenticator = self._shared_authenticator()
        header = authenticator.authorization(scopes)
        answer = self.transport.open(replace(request, authorization=header))
        if answer.status != 401 or origin(answer.url) != origin(self.url):
            return answer
        challenges: Sequence[str] = answer.headers("WWW-Authenticate")
        if not challenges:
            return answer
        answer.close()
        header = authenticator.answer(challenges, scopes, header)
        return self.transport.open(replace(request, authorization=header))

    def _shared_authenticator(self) -> Authenticator:
        url = self.url
        with self._lock:
            if self._authenticator is None:
                self._authenticator = Authenticator(
                    str(self.host),
                    url,
                    self.transport,
                    lambda: self._find(self.host.credentials_key),
                )
            return self._authenticator

    def _scheme(self) -> Scheme:
        """Return the scheme to use; a server on this machine is probed without encryption first.

        A server that wants encryption breaks off, or answers with status 400.
        """
        if self._is_plain_http is not None or not self.host.is_loopback:
            return "http" if self._is_plain_http else "https"
        probe = Request(method="GET", url=f"{self.host.url('http')}/v2/", follows_redirects=False)
        try:
            answer = self.transport.open_once(probe)
        except RegistryUnreachableError as error:
            return "http" if error.is_unconnected else "https"
        with answer:
            return "https" if answer.status == 400 else "http"
