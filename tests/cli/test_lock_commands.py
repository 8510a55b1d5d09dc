"""``ortpkg lock`` and ``ortpkg sync``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ortpkg: RunCommand) -> Path:
    """A folder with a project that wants what lies in a layout beside it."""
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert ortpkg("push", DIGITS, "oci-layout:shop:1.0").code == 0
    (folder / "ortpkg.toml").write_text('[packages]\ndigits = "oci-layout:shop:1.0"\n')
    return folder


def test_a_project_is_locked_and_installed(ortpkg: RunCommand, project: Path) -> None:
    locked = ortpkg("lock")

    assert locked.code == 0
    assert locked.out.startswith("digits 1.0@sha256:")
    assert "this machine: classifier/cpu-fp32" in locked.out
    assert (project / "ortpkg.lock").is_file()
    assert "up to date" in ortpkg("lock").err

    synced = ortpkg("sync", "--frozen")

    assert synced.code == 0
    assert synced.out.startswith("digits@sha256:")
    assert "fetched 0 B" in ortpkg("sync", "--frozen").err


def test_a_rehearsal_writes_nothing(ortpkg: RunCommand, project: Path) -> None:
    assert "would change" in ortpkg("lock", "--dry-run").err
    assert "would fetch" in ortpkg("sync", "--dry-run").err

    assert sorted(path.name for path in project.iterdir()) == ["ortpkg.toml", "shop"]


def test_reports_are_json_too(ortpkg: RunCommand) -> None:
    locked, synced = ortpkg("lock", "--json").json, ortpkg("sync", "--json").json

    assert (locked["kind"], locked["changed"]) == ("lock", True)
    assert synced["kind"] == "sync"
    (package,) = synced["packages"]
    assert package["digest"] == locked["packages"]["digits"]["digest"]
    assert package["moved_nbytes"] > 0


def test_frozen_without_a_lock_is_wrong_usage(ortpkg: RunCommand) -> None:
    done = ortpkg("sync", "--frozen")

    assert done.code == 2
    assert "run ortpkg lock" in done.err


def test_without_a_project_both_say_what_is_missing(ortpkg: RunCommand, project: Path) -> None:
    (project / "ortpkg.toml").unlink()

    for command in ("lock", "sync"):
        done = ortpkg(command)
        assert done.code == 2
        assert "[packages]" in done.err
