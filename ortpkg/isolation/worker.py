"""A child process that serves one caller's requests, of JSON and raw bytes, until it is ended.

For foreign code whose crash, hang or hunger must not be this process's: unlike
:mod:`ortpkg.isolation.child`, which asks one question, a worker keeps what it has loaded. It is
started in the same way, and like that protects from accidents, not from attackers. It ends when
this process does, also when that is killed: its input ends then.
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

from ortpkg.host.memory import DescendantMemory, resident_nbytes
from ortpkg.isolation.process import end_process, exit_reason, last_words, start_process

#: A frame: the length of its JSON, the JSON, and the bytes of the buffers that it tells of.
_LENGTH = struct.Struct("<Q")
#: More than that is no header of ours.
_MOST_HEADER_NBYTES = 1 << 28
_MOST_ERROR_BYTES = 1 << 14
#: Up to that, copying is cheaper than a second system call.
_MOST_JOINED_NBYTES = 1 << 16
_LINGER_S = 2.0
#: In the header of what is no reply, but says what is being done.
NOTE = "note"

Buffer = bytes | bytearray | memoryview


class WorkerEndedError(Exception):
    """The worker is no more; the text says how it ended, e.g. "it was ended by SIGSEGV"."""


class WorkerCallError(Exception):
    """The worker's function raised.

    The text is the exception's own, ``kind`` the name of its class.
    """

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or a reply."""

    header: Mapping[str, Any] = field(default_factory=dict)
    buffers: Sequence[Buffer] = ()


class Worker:
    """A child process that has ``"module:function"`` make a handler, and calls it for each request.

    It ends when it is closed, and when nobody has it any more. One request at a time; further
    callers wait. Any thread may :meth:`kill` it meanwhile.
    """

    def __init__(self, function: str, arguments: Mapping[str, Any]) -> None:
        """Starts the child and does not wait for it.

        OSError where there is no interpreter to start.
        """
        self._child = start_process("ortpkg.isolation.worker_main", function)
        assert self._child.stdout is not None
        self._replies = os.fdopen(self._child.stdout.fileno(), "rb", closefd=False)
        self._beside = DescendantMemory(self._child.pid)
        self._made_in = os.getpid()
        self._calls = threading.Lock()
        self._ends = threading.Lock()
        self._reason = ""
        #: What the child said last that it is doing (``worker_main.tell``); "" for nothing in
        #: particular.
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
            self, _release, self._child, self._replies, self._listener, self._made_in
        )
        with contextlib.suppress(OSError):  # it died; the first call tells how
            self._send(Message(header=arguments))

    @property
    def is_alive(self) -> bool:
        """Whether it can serve this process; a fork of the process that made it has no worker."""
        return self._made_in == os.getpid() and not self._reason and self._child.poll() is None

    def resident_nbytes(self) -> int:
        """Memory that it holds now, and on Linux what it has started.

        0 where the system does not say.
        """
        return resident_nbytes(self._child.pid) + self._beside.nbytes()

    def call(self, request: Message) -> Message:
        """The handler's reply.

        Raises:
            WorkerEndedError: it crashed, was killed, or had ended before.
            WorkerCallError: the handler raised.
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
            ):  # an interrupt: what is under way would be taken for the next reply
                self.kill("the call was interrupted")
                raise
        if "error" in reply.header:
            raise WorkerCallError(
                str(reply.header["error"]), kind=str(reply.header.get("kind", ""))
            )
        return reply

    def kill(self, reason: str) -> None:
        """Ends it at once, with what it started.

        Whoever waits for it gets WorkerEndedError with ``reason``.
        """
        if self._made_in != os.getpid():
            return  # the pipes are the parent's
        with self._ends:
            self._reason = self._reason or reason
            end_process(self._child)

    def close(self) -> None:
        """Ends it, and frees what belongs to it. A call under way gets WorkerEndedError."""
        self.kill("it was closed")
        if self._made_in != os.getpid():
            return  # a lock may be held by a thread that only the parent has
        with self._calls:
            self._release()

    def _finish(self) -> None:
        """It closed its pipes or talks nonsense: says how it ended, and sees to it that it did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_LINGER_S)
        self._listener.join(_LINGER_S)
        status = self._child.returncode
        told = "it stopped answering" if status is None else exit_reason(status)
        self.kill(told + last_words(self._errors.decode("utf-8", "replace")))

    def _send(self, message: Message) -> None:
        assert self._child.stdin is not None
        write_message(self._child.stdin.fileno(), message)

    def _receive(self) -> Message:
        return read_message(self._replies)


def _listen(pipe: IO[bytes], kept: bytearray) -> None:
    """Keeps the last of what a worker writes to standard error."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(pipe.fileno(), 1 << 14):
            kept += chunk
            del kept[:-_MOST_ERROR_BYTES]


def _release(
    child: subprocess.Popen[bytes], replies: IO[bytes], listener: threading.Thread, made_in: int
) -> None:
    """Ends a worker and closes its pipes.

    Not in a fork, where threads that only the parent has may hold locks.
    """
    if made_in != os.getpid():
        return
    end_process(child)
    listener.join(_LINGER_S)
    for pipe in (child.stdin, replies, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def write_message(descriptor: int, message: Message) -> None:
    """Writes a frame. OSError where the reader is gone."""
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
    """Reads a frame. EOFError where the writer is gone, ValueError where it is not one."""
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
