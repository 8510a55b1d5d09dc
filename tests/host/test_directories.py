"""The folders of the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.host.directories import (
    below_home,
    cache_directory,
    config_directory,
    state_directory,
    store_directory,
)

_DIRECTORIES = {
    "CACHE": (cache_directory, platformdirs.user_cache_dir),
    "CONFIG": (config_directory, platformdirs.user_config_dir),
    "STATE": (state_directory, platformdirs.user_state_dir),
}


@pytest.mark.parametrize("stated", ["", "/srv/ours"])
@pytest.mark.parametrize(("kind", "functions"), _DIRECTORIES.items())
def test_they_are_those_of_platformdirs(
    kind: str,
    functions: tuple[Callable[[], object], Callable[..., str]],
    stated: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = functions
    monkeypatch.delenv(f"ORTPKG_{kind}_DIR", raising=False)
    monkeypatch.setenv(f"XDG_{kind}_HOME", stated)
    assert str(ours()) == theirs("ortpkg", appauthor=False)
    monkeypatch.setenv(f"ORTPKG_{kind}_DIR", "/srv/chosen")
    assert str(ours()) == str(Path("/srv/chosen"))


@pytest.mark.parametrize("stated", ["", "/srv/ours"])
def test_the_store_lies_among_the_users_data(stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORTPKG_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", stated)
    assert store_directory() == Path(platformdirs.user_data_dir("ortpkg", appauthor=False), "store")
    monkeypatch.setenv("ORTPKG_STORE", "/srv/chosen")
    assert store_directory() == Path("/srv/chosen")


@pytest.mark.skipif(sys.platform != "linux", reason="others have no XDG variables")
@pytest.mark.parametrize("home", ["", ".", "home/me"])
@pytest.mark.parametrize("stated", ["", "data", "./data", "~/data"])
def test_relative_paths_of_the_environment_are_ignored(
    home: str, stated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the XDG Base Directory Specification says; an empty HOME would be the root folder."""
    monkeypatch.delenv("ORTPKG_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", stated)
    monkeypatch.setenv("HOME", home)
    import pwd  # not on Windows

    own = Path(pwd.getpwuid(os.getuid()).pw_dir)

    assert store_directory() == own / ".local/share/ortpkg/store"
    assert below_home("~/.docker/config.json") == str(own / ".docker/config.json")


@pytest.mark.skipif(sys.platform != "linux", reason="others have no XDG variables")
def test_without_a_home_the_variable_to_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd  # not on Windows

    def fail(_user: int) -> None:
        raise KeyError

    for name in ("ORTPKG_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", fail)
    with pytest.raises(UsageError, match=r"^no folder for .*: name one in ORTPKG_CACHE_DIR$"):
        cache_directory()


def test_the_guide_names_the_variable_of_each_folder() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    for name in ("STORE", "CACHE_DIR", "STATE_DIR", "CONFIG_DIR"):
        assert f"`ORTPKG_{name}`" in guide
