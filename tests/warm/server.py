"""The process that is copied: loads what children load, then waits on a socket."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
import types
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

from tests.warm.popen import MODULE, PROGRAM, use  # noqa: E402  # -P leaves out the directory of this file, too

#: Tests put others in their place, and a copy would have none of their threads.
_NOT_LOADED = ("onnxruntime", "openvino")
#: Children of ours; what they hold together with those that they start is measured.
_CHILDREN = ("ortpkg.foundations.isolation.child_main", "ortpkg.foundations.isolation.worker_main")
#: What these do in a child asks backends, in children of its own.
_ASKING = ("ortpkg.selection.measuring.child_worker:", "ortpkg.runtime.session.compile_models:")
_MOST_REQUEST_BYTES = 1 << 20
_STREAMS = 3
#: An interpreter ends with it that cannot write what its streams still buffer.
_FLUSH_FAILED = 120


def main() -> None:
    """Serves the socket whose descriptor the command line names, until the other side closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for those who asked
    base_path = sys.path[1:]
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])), base_path)


def _serve(channel: socket.socket, base_path: list[str]) -> None:
    while request := _receive(channel):
        _copy(channel, *request, base_path)


def _load() -> None:
    """Loads all of ours that needs none of the libraries above, but not the program."""
    sys.modules.update(dict.fromkeys(_NOT_LOADED))  # type: ignore[arg-type]  # so that to import them is an ImportError
    package = importlib.import_module("ortpkg")
    for module in pkgutil.walk_packages(package.__path__, "ortpkg."):
        if module.name != "ortpkg.__main__":
            with suppress(ImportError):
                importlib.import_module(module.name)
    for name in _NOT_LOADED:
        del sys.modules[name]
    gc.collect()
    gc.freeze()  # else the first collection of a copy would touch, and so copy, every page


def _receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    text, streams, _, _ = socket.recv_fds(channel, _MOST_REQUEST_BYTES, _STREAMS)
    return (json.loads(text), streams) if text else None


def _copy(
    channel: socket.socket, request: dict[str, Any], streams: list[int], base_path: list[str]
) -> None:
    """A copy's copy, which the system gives to who asked, as the one between has ended."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        for stream in streams:
            os.close(stream)
        return
    between = os.getpid()
    if os.fork():
        os._exit(0)
    code = 1
    try:
        while os.getppid() == between:
            time.sleep(0.0005)
        if request["is_session"]:
            os.setsid()
        channel.send(str(os.getpid()).encode())
        channel.close()
        if request["module"] not in _CHILDREN or request["words"][-1].startswith(_ASKING):
            _serve_own_children(streams, base_path)
        _become(request, streams, base_path)
        code = _run(request)
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        traceback.print_exc()
    finally:
        _end(code)


def _serve_own_children(streams: list[int], base_path: list[str]) -> None:
    """Copies what this process starts from one as it is now, with nothing done yet."""
    channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        channel.close()
        for stream in streams:
            os.close(stream)
        _serve(theirs, base_path)
        os._exit(0)
    theirs.close()
    use(channel)


def _become(request: dict[str, Any], streams: list[int], base_path: list[str]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    found = [
        path for path in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if path
    ]
    first = [] if request["is_safe_path"] else [request["directory"]]
    sys.path[:] = [*first, *found, *base_path]
    sys.argv[:] = request["words"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        text = _stream(number, is_unbuffered="PYTHONUNBUFFERED" in request["environment"])
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def _stream(number: int, *, is_unbuffered: bool) -> IO[str]:
    """Open a standard stream as an interpreter does that begins."""
    if number == 0:
        return os.fdopen(number, "r", encoding="utf-8", closefd=False)
    file = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(
        file if is_unbuffered else io.BufferedWriter(file),
        encoding="utf-8",
        errors="backslashreplace" if number == _STREAMS - 1 else None,
        line_buffering=number == _STREAMS - 1,
        write_through=is_unbuffered,
    )


def _run(request: dict[str, Any]) -> int:
    """The module's ``main``, or the program; the code with which the interpreter would end."""
    try:
        if request["module"] == PROGRAM:
            main_module = types.ModuleType("__main__")
            sys.modules["__main__"] = main_module
            exec(compile(request["program"], "<string>", "exec"), vars(main_module))
        elif request["module"] == MODULE:
            runpy.run_module(request["program"], run_name="__main__", alter_sys=True)
        else:
            importlib.import_module(request["module"]).main()
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        sys.stderr.write(f"{exit_.code}\n")
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


def _end(code: int) -> None:
    """Ends this process as an interpreter ends, but for the freeing of what it had loaded."""
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = _FLUSH_FAILED
    os._exit(code)


if __name__ == "__main__":
    main()
