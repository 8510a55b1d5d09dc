"""A registry in the test's own process: the OCI distribution specification over a dictionary.

Its behaviour has switches, since registries differ: the list of referrers, ranges, mounts, pages,
and who may come in. It checks what a real one checks (digests of what is pushed), and counts what
it was asked.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ortpkg.distribution.registry.repository import INDEX_MEDIA_TYPE
from tests.registry.local_server import LocalServer, at_work

_NAME = "(?P<name>[a-z0-9._/-]+)"
_REFERENCE = "(?P<reference>[A-Za-z0-9._:-]+)"


@dataclass
class Upload:
    """Bytes that came so far."""

    repository: str
    content: bytearray = field(default_factory=bytearray)


@dataclass
class Repository:
    """What one repository holds."""

    blobs: set[str] = field(default_factory=set)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass
class InProcessRegistry:
    """The registry's content and switches.

    Attributes:
        auth: "none", "basic" or "bearer" (tokens of its own token server, under ``/token``).
        accounts: user name → password.
        identity_tokens: those that can be exchanged for access tokens.
        has_referrers_api, has_ranges, has_mounts: what it can do.
        page_tags: so many tags at once at most.
        requests: (method, path without query) → how often.
        moved: path → bytes of bodies that went out.
        log: each request's line, with the Authorization header that came along.
    """

    auth: str = "none"
    accounts: dict[str, str] = field(default_factory=lambda: {"ann": "correct horse"})
    identity_tokens: set[str] = field(default_factory=lambda: {"identity-1"})
    has_referrers_api: bool = True
    has_ranges: bool = True
    has_mounts: bool = True
    page_tags: int = 1000
    token_life_s: int = 300
    blobs: dict[str, bytes] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    upload_numbers: Iterator[int] = field(default_factory=itertools.count)
    tokens: dict[str, tuple[str, ...]] = field(default_factory=dict)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    log: list[tuple[str, str, str]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    host: str = ""
    is_tls: bool = False

    @property
    def url(self) -> str:
        """``http://127.0.0.1:port``."""
        return f"{'https' if self.is_tls else 'http'}://{self.host}"

    def repository(self, name: str) -> Repository:
        """A repository, which may be new."""
        return self.repositories.setdefault(name, Repository())

    def add_blob(self, name: str, content: bytes) -> str:
        """Puts a blob into a repository; its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        self.repository(name).blobs.add(digest)
        return digest

    def requested(self, method: str, part: str = "") -> int:
        """How often ``method`` came for paths with ``part`` in them."""
        return sum(n for (m, path), n in self.requests.items() if m == method and part in path)


@contextmanager
def running(
    registry: InProcessRegistry, certificate: tuple[Path, Path] | None = None
) -> Iterator[InProcessRegistry]:
    """The registry on a free port of this machine; with TLS where (certificate, key) are given."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.registry = registry
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    registry.is_tls = certificate is not None
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    with at_work(server):
        yield registry


class _Server(LocalServer):
    registry: InProcessRegistry


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def handle_one_method(self) -> None:
        registry = self.server.registry
        parts = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        self.scopes = parse_qs(parts.query).get("scope", [])
        with registry.lock:
            registry.requests[self.command, parts.path] += 1
            registry.log.append((self.command, self.path, self.headers.get("Authorization", "")))
        self.body_left = int(self.headers.get("Content-Length") or 0)
        if parts.path == "/token":
            self._token()
        elif not self._is_let_in(parts.path):
            self._challenge(parts.path)
        else:
            self._route(parts.path)

    def _route(self, path: str) -> None:
        for pattern, methods in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match is not None and self.command in methods:
                getattr(self, methods[self.command])(**match.groupdict())
                return
        self._error(404, "UNSUPPORTED")

    # --- who comes in ---------------------------------------------------------------------------

    def _is_let_in(self, path: str) -> bool:
        registry = self.server.registry
        given = self.headers.get("Authorization", "")
        if registry.auth == "none":
            return True
        if registry.auth == "basic":
            return self._account() is not None
        allowed = registry.tokens.get(given.removeprefix("Bearer "))
        if allowed is None:
            return False
        wanted = self._wanted_scope(path)
        return wanted is None or any(_allows(scope, *wanted) for scope in allowed)

    def _account(self) -> str | None:
        given = self.headers.get("Authorization", "")
        if not given.startswith("Basic "):
            return None
        name, _, password = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
        return name if self.server.registry.accounts.get(name) == password else None

    def _wanted_scope(self, path: str) -> tuple[str, str] | None:
        match = re.match(r"/v2/(?P<name>.+?)/(?:manifests|blobs|tags|referrers)/", path)
        if match is None:
            return None
        return match["name"], "pull" if self.command in {"GET", "HEAD"} else "push"

    def _challenge(self, path: str) -> None:
        registry = self.server.registry
        if registry.auth == "basic":
            challenge = 'Basic realm="tests"'
        else:
            wanted = self._wanted_scope(path)
            scope = "" if wanted is None else f',scope="repository:{wanted[0]}:{wanted[1]}"'
            challenge = f'Bearer realm="{registry.url}/token",service="tests"{scope}'
        self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": challenge})

    def _token(self) -> None:
        registry = self.server.registry
        if self.command == "POST":
            form = parse_qs(self._body().decode())
            if form.get("refresh_token", [""])[0] not in registry.identity_tokens:
                self._error(401, "UNAUTHORIZED")
                return
            self.scopes = form.get("scope", [""])[0].split()
        elif self.headers.get("Authorization") is not None and self._account() is None:
            self._error(401, "UNAUTHORIZED")
            return
        is_known = self.command == "POST" or self._account() is not None
        with registry.lock:
            token = f"token-{len(registry.tokens)}"
            registry.tokens[token] = tuple(
                scope if is_known else scope.replace("push", "").replace("delete", "")
                for scope in self.scopes
            )
        answer = {"token": token, "expires_in": registry.token_life_s}
        self._answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    # --- manifests ------------------------------------------------------------------------------

    def _ping(self) -> None:
        self._answer(200, b"{}")

    def _get_manifest(self, name: str, reference: str) -> None:
        held = self.server.registry.repository(name)
        digest = held.tags.get(reference, reference)
        if digest not in held.manifests:
            self._error(404, "MANIFEST_UNKNOWN")
            return
        media_type, content = held.manifests[digest]
        headers = {"Content-Type": media_type, "Docker-Content-Digest": digest}
        self._answer(200, content, headers)

    def _put_manifest(self, name: str, reference: str) -> None:
        registry = self.server.registry
        content = self._body()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        manifest = json.loads(content)
        held = registry.repository(name)
        if reference.startswith("sha256:") and reference != digest:
            self._error(400, "DIGEST_INVALID")
            return
        layers = [*manifest.get("layers", []), *filter(None, [manifest.get("config")])]
        if any(layer["digest"] not in held.blobs for layer in layers):
            self._error(400, "MANIFEST_BLOB_UNKNOWN")
            return
        with registry.lock:
            held.manifests[digest] = (self.headers["Content-Type"], content)
            if reference != digest:
                held.tags[reference] = digest
        headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/manifests/{digest}"}
        if registry.has_referrers_api and "subject" in manifest:
            headers["OCI-Subject"] = manifest["subject"]["digest"]
        self._answer(201, b"", headers)

    def _tags(self, name: str) -> None:
        registry = self.server.registry
        if name not in registry.repositories:
            self._error(404, "NAME_UNKNOWN")
            return
        after = self.query.get("last", "")
        count = min(int(self.query.get("n", "100")), registry.page_tags)
        left = sorted(tag for tag in registry.repositories[name].tags if tag > after)
        headers = {"Content-Type": "application/json"}
        if len(left) > count:
            headers["Link"] = f'</v2/{name}/tags/list?n={count}&last={left[count - 1]}>; rel="next"'
        self._answer(200, json.dumps({"name": name, "tags": left[:count]}).encode(), headers)

    def _referrers(self, name: str, reference: str) -> None:
        registry = self.server.registry
        if not registry.has_referrers_api:
            self._error(404, "NOT_FOUND")
            return
        found = []
        for digest, (media_type, content) in registry.repository(name).manifests.items():
            manifest = json.loads(content)
            if manifest.get("subject", {}).get("digest") == reference:
                entry = {"mediaType": media_type, "digest": digest, "size": len(content)}
                found.append({**entry, "artifactType": manifest.get("artifactType", "")})
        index = {"schemaVersion": 2, "mediaType": INDEX_MEDIA_TYPE, "manifests": found}
        self._answer(200, json.dumps(index).encode(), {"Content-Type": INDEX_MEDIA_TYPE})

    # --- blobs ----------------------------------------------------------------------------------

    def _get_blob(self, name: str, reference: str) -> None:
        registry = self.server.registry
        if reference not in registry.repository(name).blobs:
            self._error(404, "BLOB_UNKNOWN")
            return
        content = memoryview(registry.blobs[reference])
        headers = {"Docker-Content-Digest": reference, "Content-Type": "application/octet-stream"}
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted is None or not registry.has_ranges:
            self._answer(200, content, headers)
            return
        start = int(wanted[1])
        if start >= len(content):
            self._error(416, "RANGE_INVALID")
            return
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._answer(206, content[start:], headers)

    def _begin_upload(self, name: str) -> None:
        registry = self.server.registry
        mounted, source = self.query.get("mount"), self.query.get("from", "")
        if mounted and registry.has_mounts and mounted in registry.repository(source).blobs:
            registry.repository(name).blobs.add(mounted)
            self._answer(201, b"", {"Location": f"/v2/{name}/blobs/{mounted}"})
            return
        with registry.lock:
            number = str(next(registry.upload_numbers))
            registry.uploads[number] = Upload(repository=name)
        self._answer(202, b"", {"Location": f"/v2/{name}/blobs/uploads/{number}?state=1"})

    def _upload_status(self, name: str, number: str) -> None:
        upload = self.server.registry.uploads.get(number)
        if upload is None:
            self._error(404, "BLOB_UPLOAD_UNKNOWN")
        else:
            self._answer(204, b"", self._upload_headers(name, number, upload))

    def _patch_upload(self, name: str, number: str) -> None:
        upload = self.server.registry.uploads.get(number)
        if upload is None:
            self._error(404, "BLOB_UPLOAD_UNKNOWN")
            return
        begins = re.match(r"(\d+)-", self.headers.get("Content-Range", "0-"))
        assert begins is not None
        if int(begins[1]) != len(upload.content):
            self._error(416, "RANGE_INVALID")
            return
        for piece in self._pieces():
            upload.content += piece
        self._answer(202, b"", self._upload_headers(name, number, upload))

    def _close_upload(self, name: str, number: str) -> None:
        registry = self.server.registry
        upload = registry.uploads.get(number)
        if upload is None:
            self._error(404, "BLOB_UPLOAD_UNKNOWN")
            return
        for piece in self._pieces():
            upload.content += piece
        digest = f"sha256:{hashlib.sha256(upload.content).hexdigest()}"
        with registry.lock:
            registry.uploads.pop(number)
        if digest != self.query["digest"]:
            self._error(400, "DIGEST_INVALID")
            return
        with registry.lock:
            registry.blobs[digest] = bytes(upload.content)
            registry.repository(name).blobs.add(digest)
        headers = {"Location": f"/v2/{name}/blobs/{digest}", "Docker-Content-Digest": digest}
        self._answer(201, b"", headers)

    def _cancel_upload(self, name: str, number: str) -> None:
        self.server.registry.uploads.pop(number, None)
        self._answer(204)

    def _upload_headers(self, name: str, number: str, upload: Upload) -> dict[str, str]:
        last = max(0, len(upload.content) - 1)
        return {
            "Location": f"/v2/{name}/blobs/uploads/{number}?state={last}",
            "Range": f"0-{last}",
        }

    # --- the wire -------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[bytes]:
        while self.body_left:
            piece = self.rfile.read1(min(self.body_left, 1 << 20))
            if not piece:
                raise ConnectionError
            self.body_left -= len(piece)
            yield piece

    def _body(self) -> bytes:
        return b"".join(self._pieces())

    def _error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        body = {"errors": [{"code": code, "message": HTTPStatus(status).phrase, "detail": None}]}
        self._answer(
            status,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )

    def _answer(
        self, status: int, body: bytes | memoryview = b"", headers: dict[str, str] | None = None
    ) -> None:
        for _ in self._pieces():  # what nobody wanted
            pass
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and body:
            self.wfile.write(body)
            with self.server.registry.lock:
                self.server.registry.moved[urlsplit(self.path).path] += len(body)


for _method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_one_method)


def _allows(scope: str, name: str, action: str) -> bool:
    kind, _, rest = scope.partition(":")
    scope_name, _, actions = rest.rpartition(":")
    return kind == "repository" and scope_name == name and action in actions.split(",")


_ROUTES: tuple[tuple[str, dict[str, str]], ...] = (
    (r"/v2/", {"GET": "_ping", "HEAD": "_ping"}),
    (
        f"/v2/{_NAME}/manifests/{_REFERENCE}",
        {
            "GET": "_get_manifest",
            "HEAD": "_get_manifest",
            "PUT": "_put_manifest",
        },
    ),
    (f"/v2/{_NAME}/tags/list", {"GET": "_tags"}),
    (f"/v2/{_NAME}/referrers/{_REFERENCE}", {"GET": "_referrers"}),
    (f"/v2/{_NAME}/blobs/uploads/", {"POST": "_begin_upload"}),
    (
        f"/v2/{_NAME}/blobs/uploads/(?P<number>[0-9]+)",
        {
            "GET": "_upload_status",
            "PATCH": "_patch_upload",
            "PUT": "_close_upload",
            "DELETE": "_cancel_upload",
        },
    ),
    (f"/v2/{_NAME}/blobs/{_REFERENCE}", {"GET": "_get_blob", "HEAD": "_get_blob"}),
)
