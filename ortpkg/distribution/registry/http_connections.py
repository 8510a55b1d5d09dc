"""Connections to registries, with TLS, proxies and timeouts."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import urllib3

from ortpkg.distribution.registry.timed_answers import LateAnswerError, with_timed_answers
from ortpkg.foundations.errors import RegistryUnreachableError, quoted, redacted_answer
from ortpkg.foundations.version import __version__
from ortpkg.package.references.http_addresses import is_loopback, split_url

CHUNK_NBYTES = 1 << 20
_CONNECT_S, _READ_S = 15.0, 60.0
_MOST_IDLE_CONNECTIONS = 16
_USER_AGENT = f"ortpkg/{__version__}"

Body = bytes | Iterable[bytes]


class _WithoutSecrets(logging.Filter):
    """Log filter that removes secrets from addresses that urllib3 logs, as in redirects."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                redacted_answer(argument) if isinstance(argument, str) else argument
                for argument in record.args
            )
        return True


logging.getLogger("urllib3.connectionpool").addFilter(_WithoutSecrets())


class Connections:
    """Pool of open connections for reuse; may be used by several threads.

    Args:
        ca_file: File of trusted issuers' certificates, instead of the system's.
    """

    def __init__(self, *, ca_file: Path | None = None) -> None:
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, str | None], urllib3.PoolManager] = {}
        self._context: ssl.SSLContext | None = None

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the head of its answer, without redirects and repetitions.

        Raises:
            RegistryUnreachableError: No answer came.
        """
        parts = split_url(url)
        assert parts.hostname is not None
        pool = self._pool(parts.scheme, proxy_for(parts.scheme, parts.hostname, parts.netloc))
        try:
            return pool.request(
                method,
                url,
                headers={
                    "User-Agent": _USER_AGENT,
                    "Accept-Encoding": "identity",
                    **headers,
                },
                body=body,
                preload_content=False,
                decode_content=False,
                redirect=False,
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # The exceptions' texts contain addresses with queries.
            raise failure(parts.netloc, error) from None

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for pool in self._pools.values():
                pool.clear()

    def _pool(self, scheme: str, proxy: str | None) -> urllib3.PoolManager:
        with self._lock:
            pool = self._pools.get((scheme, proxy))
            if pool is None:
                # Reading the system's certificates takes longer than a request on this machine.
                if self._context is None and "https" in (scheme, (proxy or "").partition(":")[0]):
                    self._context = _tls_context(self._ca_file)
                pool = self._pools[scheme, proxy] = self._new_pool(proxy)
            return pool

    def _new_pool(self, proxy: str | None) -> urllib3.PoolManager:
        timeout = urllib3.Timeout(connect=_CONNECT_S, read=_READ_S)
        if proxy is None:
            manager = urllib3.PoolManager(
                maxsize=_MOST_IDLE_CONNECTIONS,
                ssl_context=self._context,
                timeout=timeout,
                blocksize=CHUNK_NBYTES,
            )
            return with_timed_answers(manager)
        parts = urlsplit(proxy)
        if parts.scheme not in {"http", "https"}:
            raise RegistryUnreachableError(
                f"the environment names a proxy of scheme {quoted(parts.scheme)}; http and https"
                " are supported",
                registry=parts.hostname or "",
                is_lasting=True,
            )
        account = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        manager = urllib3.ProxyManager(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            maxsize=_MOST_IDLE_CONNECTIONS,
            ssl_context=self._context,
            timeout=timeout,
            blocksize=CHUNK_NBYTES,
            proxy_headers=urllib3.make_headers(proxy_basic_auth=account)
            if parts.username
            else None,
        )
        return with_timed_answers(manager)


def failure(host: str, error: Exception) -> RegistryUnreachableError:
    """Return the error that users see when a connection fails."""
    reason, is_lasting, is_unconnected = _reason(error)
    return RegistryUnreachableError(
        f"{host}: {reason}", registry=host, is_lasting=is_lasting, is_unconnected=is_unconnected
    )


def _reason(error: Exception) -> tuple[str, bool, bool]:
    """Return what happened, if another try is useless, and if no connection was established."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}", True, True
    if isinstance(cause, ssl.SSLError):
        return f"no encrypted connection ({cause.reason or 'TLS failed'})", False, True
    if isinstance(cause, socket.gaierror):
        is_lasting = cause.errno != socket.EAI_AGAIN
        return "no such host, or the name server does not answer", is_lasting, True
    if isinstance(error, urllib3.exceptions.ProxyError):
        return "the proxy that the environment names refuses the connection", False, True
    if (late := _late(error)) is not None:
        return str(late), False, False
    # also a subclass of ConnectTimeoutError
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return f"no connection ({_system_text(cause)})", False, True
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"no connection within {_CONNECT_S:g} s", False, True
    if isinstance(error, urllib3.exceptions.ReadTimeoutError | TimeoutError):
        return f"nothing came for {_READ_S:g} s", False, False
    return "the connection broke off", False, False


def _cause(error: BaseException) -> BaseException:
    """Return the innermost exception; libraries wrap the system's error several times."""
    for _ in range(8):
        inner = error.__cause__ or error.__context__
        if inner is None:
            inner = next(
                (argument for argument in error.args if isinstance(argument, Exception)), None
            )
        if inner is None:
            break
        error = inner
    return error


def _late(error: BaseException | None) -> LateAnswerError | None:
    while error is not None and not isinstance(error, LateAnswerError):
        error = error.__cause__ or error.__context__
    return error


def _system_text(cause: BaseException) -> str:
    return (cause.strerror or "") if isinstance(cause, OSError) else "refused"


def proxy_for(scheme: str, host: str, netloc: str) -> str | None:
    """Return the proxy for a host by HTTPS_PROXY, HTTP_PROXY and NO_PROXY; None for this machine.

    ``netloc`` is the host with its port, if the address has one.
    """
    if is_loopback(host):
        return None
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(scheme)
    if not proxy or urllib.request.proxy_bypass_environment(  # type: ignore[attr-defined]
        netloc, proxies
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts SSL_CERT_FILE, SSL_CERT_DIR or the system, else certifi."""
    context = ssl.create_default_context(cafile=ca_file)
    paths = ssl.get_default_verify_paths()
    has_file = bool(ca_file or paths.cafile or paths.capath)
    if not has_file and not context.cert_store_stats()["x509_ca"]:
        try:
            import certifi  # type: ignore[import-not-found, unused-ignore]  # no dependency of ours
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context
