"""Releases to test against, and a place to write packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.packages import Tree, write_tree
from tests.interop.release import Release
from tests.interop.wheels import opens_components, releases_under_test

PackageWriter = Callable[[Tree], Path]


@pytest.fixture(scope="session", params=releases_under_test())
def release(request: pytest.FixtureRequest) -> Iterator[Release]:
    """Each release under test, in a child process of its own."""
    release = Release(request.param)
    yield release
    release.close()


@pytest.fixture(scope="session", params=[each for each in releases_under_test() if opens_components(each)])
def component_release(request: pytest.FixtureRequest) -> Iterator[Release]:
    """Those that read the component generation: 1.28 and later."""
    release = Release(request.param)
    yield release
    release.close()


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of packages that ortpkg makes lie in a directory of the test, not of the user."""
    directory = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr("ortpkg.package.package_lock.locks_directory", lambda: directory)


@pytest.fixture
def write_package(tmp_path: Path) -> PackageWriter:
    """Writes a tree as a package in a directory of the test."""

    def write(tree: Tree) -> Path:
        return write_tree(tmp_path / "p.ortpackage", tree)

    return write
