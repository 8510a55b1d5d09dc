"""``subprocess.Popen`` that copies a process with everything loaded, where it can."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.isolation import process as children

_ROOT = Path(__file__).resolve().parents[2]
_SET_CHILD_SUBREAPER = 36  # of Linux' prctl
#: Instead of a module: the text of a program, or the name of a module that is one.
PROGRAM, MODULE = "-c", "-m"
#: Names of parameters of ``Popen._execute_child``, in its order, up to the last one that is used
#: here.
_PARAMETERS = (
    *(
        "args",
        "executable",
        "preexec_fn",
        "close_fds",
        "pass_fds",
        "cwd",
        "env",
        "startupinfo",
        "creationflags",
    ),
    *(
        "shell",
        "p2cread",
        "p2cwrite",
        "c2pread",
        "c2pwrite",
        "errread",
        "errwrite",
        "restore_signals",
        "gid",
        "gids",
    ),
    *("uid", "umask", "start_new_session"),
)


_PLAIN_POPEN = subprocess.Popen


class WarmPopen(subprocess.Popen[Any]):
    """Starts ``python -m ortpkg``, ``-m tests...``, ``python -c`` and children of ours as copies.

    Everything else as ever.
    """

    def _execute_child(self, *values: Any) -> None:
        asked = dict(zip(_PARAMETERS, values, strict=False))
        request = _request(asked)
        if request is None:
            super()._execute_child(*values)  # type: ignore[misc]
            return
        ours = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        try:
            self.pid = _server().start(
                request, [number if pipe == -1 else pipe for number, pipe in enumerate(ours)]
            )
        finally:
            self._close_pipe_fds(*values[10:16])  # type: ignore[attr-defined]
        self._child_created = True


def _request(asked: dict[str, Any]) -> dict[str, Any] | None:
    """What is to be copied for it.

    None where it is another program, or is started in another way.
    """
    words = asked["args"]
    if (
        asked["preexec_fn"]
        or asked["pass_fds"]
        or asked["executable"]
        or not isinstance(words, Sequence)
    ):
        return None
    started = _started([os.fspath(word) for word in words])
    if started is None:
        return None
    module, program, arguments, is_safe_path = started
    environment = {**(os.environ if asked["env"] is None else asked["env"])}
    return {
        "module": module,
        "program": program,
        "words": arguments,
        "is_safe_path": is_safe_path,
        "environment": environment,
        "directory": os.fspath(asked["cwd"] or Path.cwd()),
        "is_session": bool(asked["start_new_session"]),
    }


def _started(words: list[str]) -> tuple[str, str, list[str], bool] | None:
    """Module, program, ``sys.argv``, and whether ``sys.path`` lacks the current directory."""
    if words[:3] == [sys.executable, "-m", "ortpkg"]:
        return "ortpkg.__main__", "", ["ortpkg", *words[3:]], False
    if words[:4] == [sys.executable, "-P", "-c", children._BOOTSTRAP]:
        return words[5], "", ["-c", *words[4:]], True
    if words[:2] == [sys.executable, "-c"]:
        return PROGRAM, words[2], ["-c", *words[3:]], False
    if words[:2] == [sys.executable, "-m"] and words[2].startswith("tests."):
        return MODULE, words[2], words[2:], False
    return None


@contextmanager
def warm_popen() -> Iterator[None]:
    """Within, ``subprocess`` starts processes of ours as copies; on Linux only."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(subprocess, "Popen", WarmPopen)
        yield


class _Server:
    """The process that is copied; it ends when this one does."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        """The id of a child of this process that does what is asked for.

        In another thread: one that is ended in the middle of it (a limit of time is) would leave
            half a conversation.
        """
        with ThreadPoolExecutor(1) as other:
            return other.submit(self._start, json.dumps(request).encode(), streams).result()

    def _start(self, request: bytes, streams: list[int]) -> int:
        with self._lock:
            self._prctl(
                _SET_CHILD_SUBREAPER, 1, 0, 0, 0
            )  # orphans below this process are its own, while it is so
            try:
                socket.send_fds(self._channel, [request], streams)
                answer = self._channel.recv(64)
            finally:
                self._prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if not answer:
            raise RuntimeError("the process that is copied for tests has ended")
        return int(answer)


#: The one of this process.
_SERVERS: list[_Server] = []


def use(channel: socket.socket) -> None:
    """Lets this process start others as copies of the one at the other end."""
    _SERVERS.append(_Server(channel))
    subprocess.Popen = WarmPopen  # type: ignore[misc]


def _server() -> _Server:
    if not _SERVERS:
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [
                sys.executable,
                "-P",
                str(Path(__file__).with_name("server.py")),
                str(theirs.fileno()),
            ]
            process = _PLAIN_POPEN(words, pass_fds=[theirs.fileno()], cwd=_ROOT)
        atexit.register(_end, process, channel)
        _SERVERS.append(_Server(channel))
    return _SERVERS[0]


def _end(server: subprocess.Popen[bytes], channel: socket.socket) -> None:
    channel.close()
    server.wait()
