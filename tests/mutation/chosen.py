"""A pytest plug-in that runs only the tests that ``CHOSEN_FILE`` names, in its order.

Names that are not there any more are passed over: a mutant may not be called killed because its
test is gone. Ends with ``TIMED_OUT`` where a test took too long, which a mutant need not be to
blame for.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

#: What a mutant that never stops allocating may take.
MEMORY_LIMIT_NBYTES = 16 << 30

TIMED_OUT = 77

_timed_out: set[str] = set()


def pytest_configure() -> None:
    if sys.platform != "win32":
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_NBYTES, resource.RLIM_INFINITY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = {
        name: number
        for number, name in enumerate(json.loads(Path(os.environ["CHOSEN_FILE"]).read_text()))
    }
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
    items[:] = sorted(
        (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
    )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and "from pytest-timeout" in report.longreprtext:
        _timed_out.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _timed_out:
        session.exitstatus = TIMED_OUT
