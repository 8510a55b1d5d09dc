"""Leaves out slow tests and most cases of large families, unless ``make every-case`` runs.

A test with the mark ``sampled(n)`` runs every n-th of its cases. A test that loops over cases
itself takes them from the fixture ``sample``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

import pytest

_EVERY_CASE = "--every-case"
_Case = TypeVar("_Case")

Sample = Callable[[Iterable[_Case], int], Iterable[_Case]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--every-case``."""
    parser.addoption(
        _EVERY_CASE, action="store_true", help="run slow tests, and families of cases whole"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests and cases not in the sample; a family's first case always runs."""
    if config.getoption(_EVERY_CASE):
        return
    numbers: Counter[str] = Counter()
    left_out = [item for item in items if item.get_closest_marker("slow") is not None]
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            family = item.nodeid.partition("[")[0]
            if numbers[family] % mark.args[0]:
                left_out.append(item)
            numbers[family] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]


@pytest.fixture(scope="session")
def sample(pytestconfig: pytest.Config) -> Sample[object]:
    """Function ``(cases, n) -> cases`` that returns every n-th case; all with ``--every-case``."""
    is_whole = bool(pytestconfig.getoption(_EVERY_CASE))
    return lambda cases, step: cases if is_whole else islice(cases, 0, None, step)
