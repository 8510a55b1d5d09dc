"""The folders of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from ortpkg.host.directories import (
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


def test_the_guide_names_the_variable_of_each_folder() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    for name in ("STORE", "CACHE_DIR", "STATE_DIR", "CONFIG_DIR"):
        assert f"`ORTPKG_{name}`" in guide
