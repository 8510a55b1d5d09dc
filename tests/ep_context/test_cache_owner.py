"""A cache of contexts that others can write to holds their code: unused, with a warning."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from ortpkg.cli.app import run as run_command_line
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.ep_context import cache_owner
from ortpkg.runtime.ep_context.cache_owner import foreign_writers
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_state import create_session_state
from tests.ep_context.fake_compiler import FakeCompiler, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders have owners on POSIX")

TEXT = '<ir_version: 10, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Exp(x) }'


def another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process is one of a user who owns nothing here; files stay as they are."""
    taken = {0, Path.cwd().stat().st_uid, os.geteuid()}
    monkeypatch.setattr(os, "geteuid", lambda: max(taken) + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "contexts"
    path.mkdir(mode=0o755)
    return path


def compilations(folder: Path) -> int:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", str(folder))
    provider = FakeCompiler()
    model = load_model(onnx.parser.parse_model(TEXT).SerializeToString())
    state = create_session_state(model, options, [provider, CPUExecutionProvider()])
    x = np.zeros(3, np.float32)
    np.testing.assert_array_equal(run(state, x)[0], np.exp(x))
    state.close()
    return len(provider.compiled)


def test_a_folder_of_ones_own_is_used_and_one_that_anybody_may_change_is_not(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert foreign_writers(folder.parent / "not there yet") == ""
    assert foreign_writers(folder) == ""
    assert [compilations(folder) for _ in range(2)] == [1, 0]
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert [compilations(folder) for _ in range(2)] == [1, 1]
    assert f"chmod o-w '{folder}'" in caplog.text
    assert caplog.text.count("is not used") == 2
    folder.chmod(0o775)  # a group is chosen
    assert compilations(folder) == 0


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert compilations(folder) == 1
    monkeypatch.setattr(cache_owner, "_ROOT", -1)  # where tests run as root, folders are root's
    another_user(monkeypatch)
    before = sorted(folder.iterdir())
    with caplog.at_level(logging.WARNING):
        assert compilations(folder) == 1
    assert "it belongs to another user" in caplog.text
    assert sorted(folder.iterdir()) == before


def test_a_folder_of_roots_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_owner, "_ROOT", folder.stat().st_uid)
    another_user(monkeypatch)
    assert foreign_writers(folder) == ""


def test_to_explain_a_cache_that_is_not_used_says_so_and_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path))
    (tmp_path / "contexts").mkdir()
    (tmp_path / "contexts").chmod(0o777)
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    assert run_command_line(["cache", "why", str(path), "--ep", "llvm"]) != 0
    assert "is not used: any user may write to it" in capsys.readouterr().err


def test_a_folder_that_is_made_here_is_never_everybodys(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert [compilations(tmp_path / "new") for _ in range(2)] == [1, 0]
    finally:
        os.umask(before)
