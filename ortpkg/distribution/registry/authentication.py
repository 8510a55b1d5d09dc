"""Authentication at registries: Bearer, with tokens from a token server, and Basic.

Source: Docker Registry v2 authentication (token and OAuth 2), RFC 7617.

Credentials belong to a registry, by its name. Its password or identity token goes to the token
server that the registry names over the connection that we trust, as Docker does. If the registry is
reached over https, so is the token server, and no redirect takes the credentials further.
"""

from __future__ import annotations

import base64
import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from ortpkg.distribution.registry.challenges import Challenge, parse_challenges
from ortpkg.distribution.registry.credentials import Credentials
from ortpkg.distribution.registry.http_transport import (
    HttpTransport,
    Request,
    WholeAnswer,
    origin_text,
)
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import (
    CredentialsError,
    PackageFormatError,
    RegistryAuthenticationError,
    RegistryError,
    quoted,
    unquoted,
)
from ortpkg.package.references.http_addresses import next_url

_log = logging.getLogger(__name__)

_CLIENT_ID = "ortpkg"
#: Scopes that change something: repository:NAME:pull,push.
_WRITES = re.compile(r":[a-z,]*\b(?:push|delete)\b[a-z,]*\Z")
_MOST_TOKEN_ANSWER_NBYTES = 1 << 20
#: Characters and length that fit into a header.
_TOKEN = re.compile(r"[!-~]{1,65536}")
#: Lifetime of a token whose server states none, and the longest that is believed.
_TOKEN_LIFE_S, _MOST_TOKEN_LIFE_S = 60.0, 24 * 3600.0
#: A token with less time left is replaced: the request still has to get there.
_LEAST_TOKEN_LIFE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    """Authorization header, and the time at which it expires."""

    header: Secret
    until_s: float


class Authenticator:
    """Authentication at one registry; may be used by several threads.

    Args:
        name: Name of the registry, for messages.
        url: Address of the registry.
        transport: Sends requests to the token server.
        find_credentials: Returns the credentials; called once, when the registry first asks for
            them.
    """

    def __init__(
        self,
        name: str,
        url: str,
        transport: HttpTransport,
        find_credentials: Callable[[], Credentials | None],
    ) -> None:
        self._name = name
        self._url = url
        self._transport = transport
        self._find_credentials = find_credentials
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._has_credentials = False
        self._unusable_helper: CredentialsError | None = None
        self._basic: Secret | None = None
        self._bearer: Challenge | None = None
        self._tokens: dict[tuple[str, ...], _Token] = {}

    def authorization(self, scopes: tuple[str, ...]) -> Secret | None:
        """Return the header for a request, from what the registry asked for before, or None."""
        with self._lock:
            return self._authorization(scopes)

    def answer(
        self, headers: Sequence[str], scopes: tuple[str, ...], refused: Secret | None
    ) -> Secret:
        """Return the header that answers a response of status 401.

        Args:
            headers: WWW-Authenticate headers of the response.
            scopes: Scopes that are needed.
            refused: Header that the refused request had.

        Raises:
            RegistryAuthenticationError: There is no header other than the refused one.
            CredentialsError: The request writes, and the credential helper does not answer.
        """
        challenges = {
            challenge.scheme: challenge for challenge in reversed(parse_challenges(headers))
        }
        with self._lock:
            self._check_may_write(scopes)
            held = self._authorization(scopes) if scopes in self._tokens else self._basic
            if held is not None and held != refused:
                return held  # another thread was here first
            if (bearer := challenges.get("bearer")) is not None:
                self._bearer, self._basic = bearer, None
                return self._fetch(bearer, scopes).header
            if "basic" in challenges:
                header = self._basic_header()
                if header is not None and header != refused:
                    self._basic, self._bearer = header, None
                    return header
        raise self._refused()

    def _authorization(self, scopes: tuple[str, ...]) -> Secret | None:
        if self._bearer is None:
            return self._basic
        token = self._tokens.get(scopes)
        if (
            token is not None
            and token.until_s - self._transport.clock.now_s() > _LEAST_TOKEN_LIFE_S
        ):
            return token.header
        return self._fetch(self._bearer, scopes).header

    def _find_once(self) -> Credentials | None:
        if not self._has_credentials:
            try:
                self._credentials = self._find_credentials()
            except CredentialsError as error:
                if not error.is_helper_unusable:
                    raise
                self._unusable_helper = error
                _log.warning("%s; %s is read without credentials", error, self._name)
            self._has_credentials = True
        return self._credentials

    def _check_may_write(self, scopes: tuple[str, ...]) -> None:
        """Raise CredentialsError for a write if the credential helper gives no answer."""
        self._find_once()
        if self._unusable_helper is not None and any(_WRITES.search(scope) for scope in scopes):
            raise CredentialsError(
                f"{self._unusable_helper}, and {self._name} is not written to without credentials",
                is_helper_unusable=True,
            )

    def _basic_header(self) -> Secret | None:
        credentials = self._find_once()
        if credentials is None or not credentials.password:
            return None
        account = f"{credentials.username}:{credentials.password.reveal()}".encode()
        return Secret("Basic " + base64.b64encode(account).decode())

    def _fetch(self, challenge: Challenge, scopes: tuple[str, ...]) -> _Token:
        """Get a token from the token server and remember it."""
        self._tokens.pop(scopes, None)
        self._check_may_write(scopes)
        credentials = self._find_once()
        now_s = self._transport.clock.now_s()
        if credentials is not None and credentials.registry_token:
            token, life_s = credentials.registry_token.reveal(), _MOST_TOKEN_LIFE_S
        else:
            token, life_s = self._request_token(challenge, scopes, credentials)
        if _TOKEN.fullmatch(token) is None:
            raise RegistryAuthenticationError(
                f"{self._name}: the token is no text that a header can carry", registry=self._name
            )
        fetched = _Token(header=Secret(f"Bearer {token}"), until_s=now_s + life_s)
        self._tokens[scopes] = fetched
        return fetched

    def _request_token(
        self, challenge: Challenge, scopes: tuple[str, ...], credentials: Credentials | None
    ) -> tuple[str, float]:
        """Return the token and its lifetime in seconds."""
        realm = self._realm(challenge)
        service = challenge.parameters.get("service", "")
        if credentials is not None and credentials.identity_token:
            request = _exchange_request(realm, service, scopes, credentials.identity_token)
        else:
            username = "" if credentials is None else credentials.username
            request = _token_request(realm, service, scopes, self._basic_header(), username)
        answer = self._transport.exchange(request, most_nbytes=_MOST_TOKEN_ANSWER_NBYTES)
        return self._token_of(answer, realm)

    def _token_of(self, answer: WholeAnswer, realm: str) -> tuple[str, float]:
        if answer.status in {400, 401, 403}:
            raise self._refused()
        server = f"{self._name}: its token server {origin_text(realm)}"
        if answer.status != 200:
            raise RegistryError(
                f"{server} answers with status {answer.status}",
                registry=self._name,
                status=answer.status,
            )
        try:
            document = parse_document(answer.body, document="the answer")
            token = document.get("token") or document.get("access_token")
            if not isinstance(token, str):
                raise TypeError
            life_s = document.get("expires_in")
        except (PackageFormatError, TypeError):
            raise RegistryError(f"{server} gives no token", registry=self._name) from None
        if not isinstance(life_s, int | float) or isinstance(life_s, bool):
            life_s = _TOKEN_LIFE_S
        return token, min(max(_TOKEN_LIFE_S, life_s), _MOST_TOKEN_LIFE_S)

    def _realm(self, challenge: Challenge) -> str:
        """Return the token server's address; it must be one that a redirect could lead to, too."""
        realm = challenge.parameters.get("realm", "")
        try:
            return next_url(self._url, realm)
        except ValueError as error:
            raise RegistryAuthenticationError(
                f"{self._name}: names {quoted(realm)} as its token server, and no credentials go"
                f" there: {unquoted(error)}",
                registry=self._name,
            ) from None

    def _refused(self) -> RegistryAuthenticationError:
        credentials = self._find_once()
        problem = (
            "refuses the credentials that are kept for it, or they do not allow this"
            if credentials is not None
            else "wants credentials"
        )
        if self._unusable_helper is not None:
            problem += f" ({self._unusable_helper})"
        return RegistryAuthenticationError(
            f"{self._name}: {problem}; log in with: ortpkg login {self._name}",
            registry=self._name,
            status=401,
        )


def _token_request(
    realm: str, service: str, scopes: tuple[str, ...], header: Secret | None, username: str
) -> Request:
    """Return the request for a token, anonymous or with a password."""
    fields = [("service", service)] if service else []
    if header is not None:
        fields.append(("account", username))
    query = urlencode([*fields, *(("scope", scope) for scope in scopes)])
    joint = "&" if "?" in realm else "?"
    return Request(
        method="GET", url=f"{realm}{joint}{query}" if query else realm, authorization=header
    )


def _exchange_request(
    realm: str, service: str, scopes: tuple[str, ...], identity_token: Secret
) -> Request:
    """Return the request that exchanges an identity token.

    The token is in the body, which no redirect repeats.
    """

    def form() -> bytes:
        fields = {
            "grant_type": "refresh_token",
            "service": service,
            "client_id": _CLIENT_ID,
            "scope": " ".join(scopes),
            "refresh_token": identity_token.reveal(),
        }
        return urlencode(fields).encode()

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return Request(
        method="POST", url=realm, headers=headers, open_body=form, follows_redirects=False
    )
