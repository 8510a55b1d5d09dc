"""A server of files in the test's own process, as web servers, buckets and hubs give them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FileServer:
    """What is served, how, and what was asked for.

    Attributes:
        files: path (as it is asked for, with its query) → content.
        has_ranges, has_lengths: what the server can.
        tag: of every file; "" for none.
        headers: that go along with each answer.
        break_after: each of these answers' bodies ends after so many bytes, the first one first.
        redirects: path → where it sends to.
        statuses: path → the status that it is answered with.
        sent_nbytes: of bodies.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    has_ranges: bool = True
    has_lengths: bool = True
    tag: str = '"1"'
    headers: dict[str, str] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    sent_nbytes: int = 0
    url: str = ""

    def paths(self, method: str = "GET") -> list[str]:
        """What was asked for."""
        return [each.path for each in self.asked if each.method == method]


@contextmanager
def serving(files: FileServer) -> Iterator[FileServer]:
    """The server, at ``url``, for as long as this lasts."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = unquote(self.path)
            with lock:
                headers = {key.lower(): text for key, text in self.headers.items()}
                files.asked.append(Asked(self.command, path, headers))
                most = (
                    files.break_after.pop(0)
                    if (files.break_after and "range" in headers)
                    or (not files.has_ranges and files.break_after)
                    else None
                )
            content = files.files.get(path)
            if path in files.redirects:
                self._send(302, b"", {"Location": files.redirects[path]})
            elif path in files.statuses or content is None:
                self._send(files.statuses.get(path, 404), b"", {})
            else:
                self._send_file(content, headers, most)

        def _send_file(self, content: bytes, asked: dict[str, str], most: int | None) -> None:
            tag = {"ETag": files.tag} if files.tag else {}
            match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.get("range", ""))
            is_version = asked.get("if-range", files.tag) == files.tag
            if asked.get("if-match", files.tag) != files.tag:
                self._send(412, b"", {})
            elif match is not None and files.has_ranges and is_version:
                first = int(match[1])
                last = min(int(match[2] or len(content)), len(content) - 1)
                if first > last:
                    self._send(416, b"", {})
                    return
                part = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
                self._send(206, content[first : last + 1], {**tag, **part}, most)
            else:
                self._send(200, content, tag, most)

        def _send(
            self, status: int, body: bytes, headers: dict[str, str], most: int | None = None
        ) -> None:
            self.send_response(status)
            dates = {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
            for name, value in {**dates, **headers, **files.headers}.items():
                self.send_header(name, value)
            is_whole = files.has_lengths or status != 200
            if is_whole:
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "HEAD":
                return
            sent = body if most is None else body[:most]
            self.wfile.write(sent)
            with lock:
                files.sent_nbytes += len(sent)
            if sent != body or not is_whole:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    files.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def path_of(url: str) -> str:
    """What a server is asked for by an address."""
    return urlsplit(url).path
