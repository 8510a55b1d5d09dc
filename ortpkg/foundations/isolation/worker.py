"""Child process that serves one caller's requests, of JSON and raw bytes, until it is ended.

It is for foreign code whose crash, hang or memory must not be this process's. Unlike
:mod:`ortpkg.foundations.isolation.child`, which asks one question, a worker keeps what it has
loaded. It is started in the same way, and likewise protects from accidents, not from attackers. It
ends with this process, even if that is killed, because its input ends then.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from ortpkg.foundations.host.memory import DescendantMemory, resident_nbytes
from ortpkg.foundations.isolation.process import end_process, exit_reason, last_words, start_process

#: A frame: the length of its JSON, the JSON, and the bytes of the buffers that it lists.
_LENGTH = struct.Struct("<Q")
#: Largest header; anything larger is not ours.
_MOST_HEADER_NBYTES = 1 << 28
_MOST_ERROR_BYTES = 1 << 14
#: Up to this size, copying is cheaper than a second system call.
_MOST_JOINED_NBYTES = 1 << 16
_LINGER_S = 2.0
#: Key in the header of a note, which is not a reply but says what is being done.
NOTE = "note"

Buffer = bytes | bytearray | memoryview


class WorkerEndedError(Exception):
    """The worker has ended; the text says how, e.g. "it was ended by SIGSEGV"."""


class WorkerCallError(Exception):
    """The worker's function raised.

    Its text is that of the exception, ``kind`` the name of the exception's class.
    """

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Request or reply: a JSON header and buffers."""

    header: Mapping[str, Any] = field(default_factory=dict)
    buffers: Sequence[Buffer] = ()


class Worker:
    """Child process that answers requests with a handler, which ``"module:function"`` creates.

    It ends when it is closed or garbage collected. It takes one request at a time; further callers
    wait. Any thread may :meth:`kill` it meanwhile.
    """

    def __init__(self, function: str, arguments: Mapping[str, Any]) -> None:
        """Start the child without waiting for it.

        Raises:
            OSError: There is no interpreter to start.
        """
        self._child = start_process("ortpkg.foundations.isolation.worker_main", function)
        assert self._child.stdout is not None
        self._replies = os.fdopen(self._child.stdout.fileno(), "rb", closefd=False)
        self._beside = DescendantMemory(self._child.pid)
        self._creator_pid = os.getpid()
        self._calls = threading.Lock()
        self._ends = threading.Lock()
        self._reason = ""
        #: Last note of the child about what it is doing (``worker_main.tell``), or "".
        self.note = ""
        assert self._child.stderr is not None
        self._errors = bytearray()
        self._listener = threading.Thread(
            target=_listen,
            args=(self._child.stderr, self._errors),
            name="ortpkg-worker-stderr",
            daemon=True,
        )
        self._listener.start()
        self._release = weakref.finalize(
            self, _release, self._child, self._replies, self._listener, self._creator_pid
        )
        with contextlib.suppress(OSError):  # it died; the first call reports how
            self._send(Message(header=arguments))

    @property
    def is_alive(self) -> bool:
        """True if it can serve this process; a fork of its creator has no worker."""
        return self._creator_pid == os.getpid() and not self._reason and self._child.poll() is None

    def resident_nbytes(self) -> int:
        """Return its memory now, on Linux with what it has started.

        0 if the system does not report it.
        """
        return resident_nbytes(self._child.pid) + self._beside.nbytes()

    def call(self, request: Message) -> Message:
        """Return the handler's reply.

        Raises:
            WorkerEndedError: It crashed, was killed, or had ended before.
            WorkerCallError: The handler raised.
        """
        with self._calls:
            try:
                self.note = ""
                self._send(request)
                reply = self._receive()
                while NOTE in reply.header:
                    self.note = str(reply.header[NOTE])
                    reply = self._receive()
            except (OSError, ValueError, EOFError) as error:
                self._finish()
                raise WorkerEndedError(self._reason) from error
            except (
                BaseException
            ):  # after an interrupt, the pending reply would be taken for the next one
                self.kill("the call was interrupted")
                raise
        if "error" in reply.header:
            raise WorkerCallError(
                str(reply.header["error"]), kind=str(reply.header.get("kind", ""))
            )
        return reply

    def kill(self, reason: str) -> None:
        """Kill it and what it started; waiting callers get WorkerEndedError with ``reason``."""
        if self._creator_pid != os.getpid():
            return  # the pipes belong to the parent
        with self._ends:
            self._reason = self._reason or reason
            end_process(self._child)

    def close(self) -> None:
        """End it and free its resources; a call in progress gets WorkerEndedError."""
        self.kill("it was closed")
        if self._creator_pid != os.getpid():
            return  # a thread that only the parent has may hold a lock
        with self._calls:
            self._release()

    def _finish(self) -> None:
        """Kill a worker that closed its pipes or sends nonsense, and record how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_LINGER_S)
        self._listener.join(_LINGER_S)
        status = self._child.returncode
        end_reason = "it stopped answering" if status is None else exit_reason(status)
        self.kill(end_reason + last_words(self._errors.decode("utf-8", "replace")))

    def _send(self, message: Message) -> None:
        assert self._child.stdin is not None
        write_message(self._child.stdin.fileno(), message)

    def _receive(self) -> Message:
        return read_message(self._replies)


def _listen(pipe: IO[bytes], output: bytearray) -> None:
    """Keep the last part of what a worker writes to standard error."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(pipe.fileno(), 1 << 14):
            output += chunk
            del output[:-_MOST_ERROR_BYTES]


def _release(
    child: subprocess.Popen[bytes], replies: IO[bytes], listener: threading.Thread, creator_pid: int
) -> None:
    """End a worker and close its pipes.

    Not in a fork, where threads that only the parent has may hold locks.
    """
    if creator_pid != os.getpid():
        return
    end_process(child)
    listener.join(_LINGER_S)
    for pipe in (child.stdin, replies, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def write_message(descriptor: int, message: Message) -> None:
    """Write a frame.

    Raises:
        OSError: The reader has gone.
    """
    buffers = [memoryview(buffer).cast("B") for buffer in message.buffers]
    text = json.dumps([dict(message.header), [buffer.nbytes for buffer in buffers]]).encode()
    frame = _LENGTH.pack(len(text)) + text
    if sum(buffer.nbytes for buffer in buffers) <= _MOST_JOINED_NBYTES:
        frame, buffers = b"".join((frame, *buffers)), []
    for part in (memoryview(frame), *buffers):
        view = part
        while view.nbytes:
            view = view[os.write(descriptor, view) :]


def read_message(source: IO[bytes]) -> Message:
    """Read a frame.

    Raises:
        EOFError: The writer has gone.
        ValueError: The data is not a frame.
    """
    (length,) = _LENGTH.unpack(_read_exactly(source, _LENGTH.size))
    if length > _MOST_HEADER_NBYTES:
        raise ValueError(f"a header of {length} bytes")
    header, sizes = json.loads(bytes(_read_exactly(source, length)))
    return Message(header=header, buffers=[_read_exactly(source, int(size)) for size in sizes])


def _read_exactly(source: IO[bytes], nbytes: int) -> bytearray:
    data = bytearray(nbytes)
    view = memoryview(data)
    while view.nbytes:
        received = source.readinto(view)  # type: ignore[attr-defined]
        if not received:
            raise EOFError
        view = view[received:]
    return data
