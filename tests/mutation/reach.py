"""A pytest plug-in that writes which functions each test calls, and its time.

``pytest -p tests.mutation.reach``, with ``REACH_FOLDER`` (the folder, absolute) and ``REACH_FILE``
(to which a line of JSON is added after each test, so that a run which ends early is not in vain). A
function is ``[file below the folder's parent, qualified name]``. What the Pythons call that a test
starts is noted by ``in_children/sitecustomize.py``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

_FOLDER = os.environ.get("REACH_FOLDER", "") + os.sep


class _Recorder:
    """Collects the names of the functions that are called while a test runs."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()
        self.failed: set[str] = set()

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        """A global trace function: returns nothing, so that no line is traced."""
        code = frame.f_code
        if code.co_filename.startswith(_FOLDER):
            self.called.add((code.co_filename, code.co_qualname))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.called.clear()
        started_s = time.perf_counter()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            root = Path(_FOLDER).parent
            self.called |= _called_by_children()
            test = {
                "name": item.nodeid,
                "duration_s": round(time.perf_counter() - started_s, 3),
                "calls": sorted(
                    [Path(file).relative_to(root).as_posix(), name] for file, name in self.called
                ),
                "failed": item.nodeid in self.failed,
            }
            with Path(os.environ["REACH_FILE"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps(test) + "\n")

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def _called_by_children() -> set[tuple[str, str]]:
    """What has been noted since this was asked before."""
    noted = Path(os.environ["REACH_CHILDREN"])
    lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
    noted.unlink(missing_ok=True)
    return {(file, name) for file, _, name in (line.partition("\t") for line in lines) if name}


def pytest_configure(config: pytest.Config) -> None:
    os.environ["REACH_CHILDREN"] = os.environ["REACH_FILE"] + ".children"
    hooks = str(Path(__file__).parent / "in_children")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [hooks, os.environ.get("PYTHONPATH")]))
    config.pluginmanager.register(_Recorder(), "reach")
