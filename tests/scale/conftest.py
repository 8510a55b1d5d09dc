"""Servers of KServe's parts, asked by clients of others, in an environment that ``make scale`` makes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.scale.serving_processes import Serving, serving

#: Without KServe and its client nothing here is collected.
HAS_ALL = all(importlib.util.find_spec(name) for name in ("kserve", "tritonclient"))
collect_ignore_glob = [] if HAS_ALL else ["test_*.py"]


@pytest.fixture(scope="session")
def digits() -> Iterator[Serving]:
    """A server of the digits package that stays as long as the tests."""
    with serving("sample_packages/digits.ortpackage") as server:
        yield server
