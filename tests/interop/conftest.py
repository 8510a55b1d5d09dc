"""Releases to test against, and a place to write packages."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.case import STABLE_LINES
from tests.interop.packages import Tree, write_tree
from tests.interop.release import Release
from tests.interop.wheels import newest_of_lines, opens_components, releases_under_test

PackageWriter = Callable[[Tree], Path]
ReleaseStarter = Callable[[str], Release]


@pytest.fixture(scope="session")
def start_release() -> Iterator[ReleaseStarter]:
    """The release of a version, in a child process that serves all tests."""
    started: dict[str, Release] = {}

    def start(version: str) -> Release:
        if version not in started:
            started[version] = Release(version)
        return started[version]

    yield start
    for release in started.values():
        release.close()


@pytest.fixture(params=releases_under_test())
def release(request: pytest.FixtureRequest, start_release: ReleaseStarter) -> Release:
    """Each release under test."""
    return start_release(request.param)


@pytest.fixture(params=[version for version in releases_under_test() if opens_components(version)])
def component_release(request: pytest.FixtureRequest, start_release: ReleaseStarter) -> Release:
    """Those that read the component generation: 1.28 and later."""
    return start_release(request.param)


@pytest.fixture(params=newest_of_lines(STABLE_LINES))
def stable_release(request: pytest.FixtureRequest, start_release: ReleaseStarter) -> Release:
    """Each whose rules ortpkg follows under a name of its own."""
    return start_release(request.param)


@pytest.fixture
def write_package() -> Iterator[PackageWriter]:
    """Writes a tree as a package in a directory of the test.

    Not under ``tmp_path``, which looks through the directories of all tests of the same name: there
    are a thousand.
    """
    with tempfile.TemporaryDirectory(prefix="ortpkg-interop-") as directory:
        # Resolved: releases report real paths, and the directory for temporary files is a link on
        # macOS.
        yield lambda tree: write_tree(Path(directory).resolve() / "p.ortpackage", tree)
