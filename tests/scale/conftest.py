"""KServe's parts with clients of others, and Ray, in an environment that ``make scale`` makes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.scale.serving_processes import Serving, serving

#: Of whom a module's tests are about; without them it is not collected.
NEEDS = {
    "test_batches.py": ("pyarrow", "ray"),
    "test_ray_serve.py": ("ray", "starlette", "tritonclient"),
    "test_serving*.py": ("kserve", "tritonclient"),
}
collect_ignore_glob = [
    pattern
    for pattern, libraries in NEEDS.items()
    if not all(map(importlib.util.find_spec, libraries))
]


@pytest.fixture(scope="session")
def digits() -> Iterator[Serving]:
    """A server of the digits package that stays as long as the tests."""
    with serving("sample_packages/digits.ortpackage") as server:
        yield server
