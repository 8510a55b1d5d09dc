"""KServe's parts with clients of others, and Ray, in an environment that ``make scale`` makes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scale.served_packages import make_echoes
from tests.scale.serving_processes import ROOT, Serving, serving

#: All that ``make scale`` installs for them; in another environment nothing here is collected.
LIBRARIES = ("kserve", "prometheus_client", "pyarrow", "ray", "tritonclient")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, LIBRARIES)) else ["test_*.py"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says of each module what it is about, how much of it held, and how long that took."""
    if not config.getoption("-m"):
        return
    found: dict[Path, Counter[str]] = {}
    taken_s: Counter[Path] = Counter()
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            path = ROOT / report.nodeid.partition("::")[0]
            found.setdefault(path, Counter())[outcome] += 1
            taken_s[path] += round(getattr(report, "duration", 0.0))
    terminalreporter.section("what held")
    for path, counts in sorted(found.items()):
        about = path.read_text().partition("\n")[0].strip('"')
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        terminalreporter.write_line(f"{told:<22} {taken_s[path]:6} s  {about}")


@pytest.fixture(scope="session")
def digits() -> Iterator[Serving]:
    """A server of the digits package that stays as long as the tests."""
    with serving("sample_packages/digits.ortpackage") as server:
        yield server


@pytest.fixture(scope="session")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of a model for each datatype."""
    with serving(*map(str, make_echoes(tmp_path_factory.mktemp("echoes")))) as server:
        yield server
