"""Runs a command with an audit hook in all its processes; tells what they did outside.

The hook is installed by a ``sitecustomize`` module, which each Python process of the command loads
first. It notes what goes to the network or changes files, and refuses the former, so that a test
sends nothing either.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HOOK = """
import json, os, sys

_LOG = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg",
            "socket.bind", "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect"}
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
            "os.utime", "shutil.move", "shutil.rmtree", "os.setxattr"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def _tell(what, *where):
    row = {"pid": os.getpid(), "what": what, "where": [os.fsdecode(each) for each in where]}
    os.write(_LOG, (json.dumps(row) + "\\n").encode())

def _is_path(value):
    return isinstance(value, (str, bytes, os.PathLike))

def _hook(event, arguments):
    if event in _NETWORK:
        if event == "socket.connect" and isinstance(arguments[1], (str, bytes)):
            return  # a socket of this machine's own
        _tell("network", event, repr(arguments[1:]))
        raise PermissionError(f"{event} is not allowed here")
    if event == "open" and _is_path(arguments[0]):
        mode, flags = arguments[1], arguments[2] or 0
        if (isinstance(mode, str) and set(mode) & set("wax+")) or flags & _WRITING:
            _tell("file", os.path.abspath(os.fsdecode(arguments[0])))
    elif event in _CHANGES:
        for each in arguments[:2]:
            if _is_path(each) and os.path.isabs(os.fsdecode(each)):
                _tell("file", each)
    elif event == "import" and arguments[0] == "openvino_telemetry":
        _tell("import", arguments[0])

def begin_line():
    _tell("line")

sys.addaudithook(_hook)
_tell("started", " ".join(sys.orig_argv[:6]))
"""

#: In the place of the real package: whoever imports it is noted by the marker that it leaves.
_TELEMETRY = 'import pathlib; (pathlib.Path.home() / "telemetry-was-imported").touch()\n'


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What a command and its children did.

    Attributes:
        code: the exit code.
        errors: what it wrote to standard error.
        process_count: how many Python processes ran under the hook.
        processes_of_lines: how many started after each time that ``begin_line`` of the hook was
            called.
        network: what would have gone to the network.
        written: the files and folders that they made or changed.
        home: what lies in the home directory afterwards, relative to it; written by native code,
            too.
    """

    code: int
    errors: str
    process_count: int
    processes_of_lines: tuple[int, ...]
    network: tuple[str, ...]
    written: tuple[Path, ...]
    home: tuple[str, ...]


def run_audited(
    words: Sequence[str], folder: Path, *, home_of: Path | None = None, timeout_s: float = 240
) -> Audited:
    """Runs Python with all that it starts under the hook.

    Its home directory is fresh, or a copy of ``home_of``.
    """
    home, hooks, log = folder / "home", folder / "hooks", folder / "audit.jsonl"
    home.mkdir(parents=True)
    if home_of is not None:
        shutil.copytree(home_of, home, dirs_exist_ok=True)
    (folder / "tmp").mkdir()
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(_HOOK, encoding="utf-8")
    telemetry = hooks / "openvino_telemetry"
    (telemetry / "backend").mkdir(parents=True)
    (telemetry / "__init__.py").write_text(_TELEMETRY, encoding="utf-8")
    (telemetry / "backend/__init__.py").write_text("", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *words],
        env=_environment(home, hooks, log),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return Audited(
        code=done.returncode,
        errors=done.stderr,
        process_count=sum(row["what"] == "started" for row in rows),
        processes_of_lines=_processes_of_lines([row["what"] for row in rows]),
        network=tuple(" ".join(row["where"]) for row in rows if row["what"] == "network"),
        written=tuple(
            dict.fromkeys(
                Path(each) for row in rows if row["what"] == "file" for each in row["where"]
            )
        ),
        home=tuple(
            sorted(
                path.relative_to(home).as_posix() for path in home.rglob("*") if not path.is_dir()
            )
        ),
    )


def _processes_of_lines(rows: Sequence[str]) -> tuple[int, ...]:
    counts: list[int] = []
    for row in rows:
        if row == "line":
            counts.append(0)
        elif row == "started" and counts:
            counts[-1] += 1
    return tuple(counts)


def _environment(home: Path, hooks: Path, log: Path) -> dict[str, str]:
    """This environment without redirected folders and signs of a test run on a server."""
    dropped = ("XDG_", "ORTPKG_", "CI", "GITHUB_", "PYTEST_", "ORT_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    fresh = {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "LOCALAPPDATA": str(home / "AppData/Local"),
    }
    fresh |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(home.parent / "tmp"))
    own = {"PYTHONPATH": str(hooks), "AUDIT_LOG": str(log), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | fresh | own
