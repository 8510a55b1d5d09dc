"""Run the guides to batches and serving and write their outputs: ``python -m tests.scale.guide_pages``.

A line ``NAME$ ...`` in a block is a command on that machine; its output stands below it. A block
``python NAME`` is run there, or written to the file that its first line names. A block ``log EVENT``
is what the server has logged since the last one, up to that event. ``# ends with N`` is an exit
code. Other blocks stay as they are; tests of their own follow them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: In the order of the story: the second page goes on with the packages and nodes of the first.
PAGES = (ROOT / "docs" / "batches.md", ROOT / "docs" / "serving.md")
_MODELS = ROOT / "sample_packages" / "digits.ortpackage" / "models" / "classifier"
_PROMPT = re.compile(r"(\w+)\$ (.*?)(?:  # ends with (\d))?")
_FENCE = re.compile(r"```(\w*) ?(\w*)")
#: Commands that stay → what they print when others may go on.
_STAYING = {"ray start": "Ray runtime started.", "ortpkg serve": "gRPC on "}
_LONGEST_S = 600
#: Ports of the page.
_CLUSTER, _HTTP, _GRPC = "6379", "8080", "8081"
#: What moves a terminal's cursor, where something takes long; a line of the server's log.
_TERMINAL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]|\r")
_LOGGED = re.compile(r"\d\d:\d\d:\d\d .*")
_RAYS_LOG = re.compile(r"(INFO|WARNING) \d{4}-\d\d-\d\d ")
#: What differs between two runs, and is shown as it was in one.
_VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b|(?<=sha256:)[0-9a-f]+"), "DIGEST"),
    (re.compile(r"\b[\w.-]+/[0-9a-f]{6}\b|^[\w.-]+(?= +fp32 on CPUExecutionProvider)"), "NODE"),
    (re.compile(r"\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"(?<=CPU \()[^()]*(\([^()]*\)[^()]*)*(?=\))"), "CPU"),
    (re.compile(r"\d+(\.\d+)?(e-\d+)? ?(ms|s|B|kB|MB|rows/s)\b"), "AMOUNT"),
    (re.compile(r"(_s|_ms)=[\d.e-]+"), r"\1=TIME"),
    (re.compile(r"(?<=parts; )\d+(?= a run)"), "MEASURED"),
    (re.compile(r"(?<=\(onnxruntime\)) +\d+ +\d+ "), " WORKERS ROWS "),
    (re.compile(r"\b(fp32|int8)(?= on CPUExecutionProvider.*no error is recorded)"), "VARIANT"),
    (re.compile(r"(?<=of )(fp32|int8)(?= on .*no error)"), "VARIANT"),
)


class _Room:
    """The machines of the page, which are processes on this one.

    Args:
        folder: where they work.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._staying: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self._log_shown = 0
        self._places = {_CLUSTER: _free_port(), _HTTP: _free_port(), _GRPC: _free_port()}
        self._tools = folder / "tools"
        self._tools.mkdir()
        self._ray_folder = tempfile.mkdtemp(prefix="ray-")
        for name, module in (("ortpkg", "ortpkg"), ("ray", "ray.scripts.scripts")):
            tool = self._tools / name
            tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            tool.chmod(0o755)
        self._common = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "PATH": f"{self._tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(),
            "RAY_TMPDIR": self._ray_folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "600",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def printed(self, machine: str, command: str, code: int) -> list[str]:
        """What a command prints there. AssertionError where it does not end with ``code``."""
        for words, sign in _STAYING.items():
            if command.startswith(words):
                return self._begin(machine, command, sign)
        if command.endswith(" &"):
            self._begin(machine, command.removesuffix(" &"), "")
            return []
        if command == "wait":
            process, output = self._staying.pop(f"{machine} python")
            assert process.wait(_LONGEST_S) == code
            return self._shown(output.read_text())
        if command == "kill %serve":
            process, _ = self._staying[f"{machine} ortpkg"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(_LONGEST_S) == code
            return []
        done = subprocess.run(
            self._real(command),
            shell=True,
            cwd=self.folder,
            env=self._environment(machine),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * _LONGEST_S,
            check=False,
        )
        assert done.returncode == code, (machine, command, done.returncode, done.stdout)
        return self._shown(done.stdout)

    def logged(self, event: str) -> list[str]:
        """What the server has logged since, up to ``event``, as on a terminal."""
        log = self.folder / "north-ortpkg.log"
        new: list[str] = []

        def has_come() -> bool:
            text = _TERMINAL.sub("", log.read_text())
            new[:] = _LOGGED.findall(text)[self._log_shown :]
            return any(f" {event} " in f"{line} " for line in new)

        _wait_for(has_come, f"{event} in {log.read_text()}")
        self._log_shown += len(new)
        return self._shown("\n".join(new))

    def keep(self, name: str, code: str) -> None:
        """A file that a later command runs."""
        (self.folder / name).write_text(self._real(code))

    def end(self) -> None:
        """Ends all that stays, in the order in which it does not miss each other."""
        for process, _ in reversed(self._staying.values()):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self._ray_folder, ignore_errors=True)

    def _begin(self, machine: str, command: str, sign: str) -> list[str]:
        name = command.split()[0]
        output = self.folder / f"{machine}-{name}.out"
        errors = self.folder / f"{machine}-{name}.log"
        terminal, end = os.openpty()
        with output.open("wb") as out, errors.open("wb") as log:
            process = subprocess.Popen(
                self._real(f"exec {command}"),
                shell=True,
                cwd=self.folder,
                env=self._environment(machine),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=end if name == "ortpkg" else subprocess.STDOUT,
                start_new_session=True,
            )
            os.close(end)
            subprocess.Popen(["cat"], stdin=terminal, stdout=log, stderr=subprocess.DEVNULL)
            os.close(terminal)
        self._staying[f"{machine} {name}"] = (process, output)
        _wait_for(
            lambda: sign in output.read_text() or process.poll() is not None,
            f"{command}: {output.read_text()}",
        )
        assert process.poll() is None, (command, output.read_text(), errors.read_text())
        return [] if name == "ray" else self._shown(output.read_text())

    def _environment(self, machine: str) -> dict[str, str]:
        own = self.folder / machine
        own.mkdir(exist_ok=True)
        return {
            **self._common,
            "ORTPKG_STORE": str(own / "store"),
            "ORTPKG_STATE_DIR": str(own / "state"),
            "ORTPKG_CACHE_DIR": str(own / "cache"),
        }

    def _real(self, text: str) -> str:
        """A text of the page with the places of this room."""
        text = text.replace(f"north:{_CLUSTER}", f"127.0.0.1:{self._places[_CLUSTER]}")
        if text.startswith("exec ortpkg serve"):
            text += f" --port {self._places[_HTTP]} --grpc-port {self._places[_GRPC]}"
        elif text.startswith("exec ray start --head"):
            text += " --include-dashboard false"
        for port, real in self._places.items():
            text = re.sub(rf"(?<=[: ]){port}\b", real, text)
        return text

    def _shown(self, text: str) -> list[str]:
        """What came out, with the places of the page."""
        text = text.replace(f"127.0.0.1:{self._places[_CLUSTER]}", f"north:{_CLUSTER}")
        for port, real in self._places.items():
            text = text.replace(f":{real}", f":{port}")
        text = text.replace(str(self.folder), "/srv").replace("\r", "")
        host = f"{socket.gethostname()}/"
        text = text.replace("node  ", "node  ".ljust(6 + len("node/") - len(host)))
        lines = text.replace(host, "node/").splitlines()
        return [line.rstrip() for line in lines if not _RAYS_LOG.match(line)]


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    ends_s = time.monotonic() + _LONGEST_S
    while not condition():
        assert time.monotonic() < ends_s, what
        time.sleep(0.1)


def told(pages: Sequence[str], folder: Path) -> list[str]:
    """Return the pages with the current output of their commands.

    Raises:
        AssertionError: if a command ends with another exit code than the page says.
    """
    for name, model in (("int8", "cpu-int8"), ("fp32", "cpu-fp32")):
        shutil.copy(_MODELS / model / "model.onnx", folder / f"{name}.onnx")
    room = _Room(folder)
    try:
        return ["\n".join(_lines(page.split("\n"), room)) for page in pages]
    finally:
        room.end()


def _lines(lines: list[str], room: _Room) -> Iterator[str]:
    block: list[str] | None = None
    fence: tuple[str, ...] = ()
    for line in lines:
        if block is None:
            yield line
            if (match := _FENCE.fullmatch(line)) is not None:
                block, fence = [], match.groups()
        elif line != "```":
            block.append(line)
        else:
            yield from _run(fence, block, room)
            yield line
            block = None


def _run(fence: tuple[str, ...], block: list[str], room: _Room) -> Iterator[str]:
    """Yield the lines of a block with the output of its commands."""
    language, word = fence
    if language == "log":
        yield from room.logged(word)
    elif language == "python" and word:
        yield from _run_python(word, block, room)
    elif language == "" and _PROMPT.fullmatch(block[0]):
        for line in block:
            if (prompt := _PROMPT.fullmatch(line)) is not None:
                yield line
                machine, command, code = prompt.groups()
                yield from room.printed(machine, command, int(code or 0))
    else:
        yield from block


def _run_python(machine: str, block: list[str], room: _Room) -> Iterator[str]:
    code = "\n".join(line for line in block if not line.startswith("#> "))
    yield from code.split("\n")
    if block[0].startswith("# "):
        room.keep(block[0][2:], code)
        return
    room.keep("block.py", code)
    for line in room.printed(machine, "python block.py", 0):
        yield f"#> {line}"


def comparable(page: str) -> list[str]:
    """A page without what differs from one run to the next."""
    lines = []
    for line in page.split("\n"):
        for pattern, common in _VARYING:
            line = pattern.sub(common, line)
        lines.append(re.sub(r"\s+", " ", line))
    found: list[str] = []
    for is_node, group in itertools.groupby(lines, lambda line: line.startswith("NODE ")):
        same = list(group)
        found += sorted(same) if is_node else same
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        texts = told([page.read_text(encoding="utf-8") for page in PAGES], Path(name).resolve())
    for page, text in zip(PAGES, texts, strict=True):
        page.write_text(text, encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
