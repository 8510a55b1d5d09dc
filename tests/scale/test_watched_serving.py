"""The measure of servers under attack, on a server that is none: it sees what it is there for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.scale.serving_processes import Serving
from tests.scale.watched_serving import MIB, others_are_served

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("hostile clients"),
    pytest.mark.timeout(120),
]

#: Answers rightly, on one connection; before the fifth answer it does something else.
SERVER = """
import http.server, json

class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Answer.count += 1
        if Answer.count == 5:
            {deed}
        body = json.dumps({{"outputs": [{{"data": [1.0, 2.0]}}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
"""
WRONG = "return self.send_error(503)"
CUT = "return setattr(self, 'close_connection', True)"


@contextmanager
def answering(deed: str) -> Iterator[Serving]:
    """A server that does ``deed``, a statement, before its fifth answer."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(deed=deed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Serving(process, f"127.0.0.1:{int(process.stdout.readline())}", "")
    finally:
        process.kill()
        process.communicate()


def watch(deed: str, growth_nbytes: int, count: int = 8) -> None:
    """Have others ask a server that does ``deed`` until they have so many answers, and once more."""
    with answering(deed) as server, others_are_served(server, growth_nbytes) as waits:
        while len(waits) < count:
            time.sleep(0.01)
        time.sleep(0.2)


def test_a_server_that_answers_and_stays_small_passes() -> None:
    watch("pass", 20 * MIB)


def test_memory_that_is_given_back_before_the_end_is_seen() -> None:
    with pytest.raises(AssertionError, match=r"grown by 20\d MiB"):
        watch("b'1' * (200 << 20)", 100 * MIB)


@pytest.mark.parametrize("deed", [CUT, WRONG], ids=["a cut connection", "an error's page"])
def test_an_asker_who_gets_no_answer_is_no_success(deed: str) -> None:
    with pytest.raises(AssertionError, match="somebody else was not answered"):
        watch(deed, 100 * MIB, 4)
