"""Registries that run while the tests of a folder do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.registry.servers import KINDS_IN_PROCESS, KINDS_REAL, REAL_VARIABLE, Server, serve

_KINDS = [
    *KINDS_IN_PROCESS,
    *(
        pytest.param(kind, marks=pytest.mark.registry)
        for kind in (KINDS_REAL if os.environ.get(REAL_VARIABLE) else ())
    ),
]


@pytest.fixture(scope="module", params=_KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A registry of each kind, for all tests of a module: they use repositories of their own."""
    with serve(request.param, tmp_path_factory.mktemp("registry")) as running:
        yield running
