"""Plug-ins that crash or hang in making, loading or a first run: a child ends, and we tell."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    EpContextError,
    ExecutionProviderError,
    StatusCode,
    TrustRequiredError,
)
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.foundations.isolation.worker import Message, Worker
from ortpkg.runtime.providers import first_load, plugins
from ortpkg.runtime.providers.isolated_model import LoadLimits
from ortpkg.runtime.session import plugin_context_loader
from tests.ep_context.conftest import EXPECTED, ROOT, X
from tests.ep_context.fake_compiler import NAME as FAKE

#: In the order in which a session comes by: what went well is remembered.
_HARM = {
    "create:abort": "failed to make an execution provider: it was ended by SIGABRT",
    "describe:abort": "failed to make an execution provider: it was ended by SIGABRT",
    "load:abort": "in the child process that tried first: it was ended by SIGABRT",
    "load:exit": (
        "in the child process that tried first: it ended with status 1; its last words: 'licence"
        " expired'"
    ),
    "load:raise": "in the child process that tried first: 'no such device'",
    "run:abort": (
        "in the child process that tried first: in its first run, on zeros, it was ended by SIGABRT"
    ),
}


@pytest.fixture
def fresh(fake_package: Path) -> Path:
    """A package with a variant compiled by the plug-in, on a machine that has loaded none yet."""
    return fake_package


def _session(package: Path) -> ortpkg.InferenceSession:
    return (
        ortpkg.ModelPackage(package).best_variant(variant="plain-fake").create_session(verify=False)
    )


@pytest.mark.requirement("E40")
@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_a_plugin_that_ends_its_process_fails_the_session_with_the_reason(
    fresh: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", X)
    words = ["run", str(fresh), "--variant", "plain-fake", "-i", f"x={tmp_path / 'x.npy'}"]
    for fault, said in _HARM.items():
        done = subprocess.run(
            [sys.executable, "-m", "ortpkg", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "FAKE_FAULT": fault},
        )

        assert done.returncode == 6, (fault, done.stderr)
        assert said in " ".join(done.stderr.split()), fault


@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_contexts_of_an_isolated_plugin_are_judged_here_and_loaded_in_its_child(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = ortpkg.ModelPackage(fresh).best_variant(variant="plain-fake")
    monkeypatch.setattr(first_load, "load_in_child_first", None)  # there is no other child
    with variant.create_session(isolate=True) as session:
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    monkeypatch.setenv("FAKE_FAULT", "load:abort")
    with pytest.raises(
        ExecutionProviderError,
        match=r"plug-in 'FakeExecutionProvider' .* was made is no more: .*SIGABRT",
    ):
        variant.create_session(isolate=True)
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "other"))
    with pytest.raises(TrustRequiredError):
        variant.create_session(isolate=True)


@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_a_time_limit_isolates_a_plugin_on_the_command_line(fresh: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    words = [
        "run",
        str(fresh),
        "--variant",
        "plain-fake",
        "-i",
        f"x={tmp_path / 'x.npy'}",
        "--timeout",
        "60s",
    ]
    for fault, said in (
        ("run:abort", "ran the model is no more: it was ended by SIGABRT"),
        ("", ""),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ortpkg", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "FAKE_FAULT": fault},
        )
        assert done.returncode == (5 if fault else 0), done.stderr
        assert said in " ".join(done.stderr.split())


def test_a_plugin_that_hangs_when_it_is_made_costs_its_time_limit(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = ortpkg.ModelPackage(fresh).best_variant(variant="plain-fake")
    monkeypatch.setenv("FAKE_FAULT", "create:hang")
    whole = plugins.ask_plugin

    def ask(function: str, plugin: plugins.Plugin, arguments: Mapping[str, Any]) -> ProbeAnswer:
        if function == "create_provider":  # what answers has all the time that a busy machine takes
            monkeypatch.setenv("ORTPKG_PROBE_TIMEOUT", "1")
        return whole(function, plugin, arguments)

    monkeypatch.setattr(plugins, "ask_plugin", ask)
    with pytest.raises(
        ExecutionProviderError, match="failed to make an execution provider: no answer within 1 s"
    ):
        variant.create_session(verify=False)


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("fault", "stage", "said"),
    [
        ("load:hang", "call_within", "first: it did not end"),
        ("run:hang", "_try", "on zeros, it did not end"),
    ],
)
def test_a_plugin_that_hangs_at_a_context_costs_its_time_limit(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, fault: str, stage: str, said: str
) -> None:
    whole = getattr(first_load, stage)

    def impatient(worker: Worker, limits: LoadLimits, request: Message) -> object:
        assert limits.timeout_s == first_load.FIRST_LOAD_TIMEOUT_S
        return whole(worker, LoadLimits(timeout_s=1.0), request)

    # the other stage has all the time that a busy machine takes
    monkeypatch.setattr(first_load, stage, impatient)
    monkeypatch.setenv("FAKE_FAULT", fault)
    with pytest.raises(EpContextError, match=said) as caught:
        _session(fresh)
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_a_run_that_only_refuses_zeros_is_no_fault_of_the_context(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAULT", "run:raise")
    with _session(fresh) as session:
        monkeypatch.delenv("FAKE_FAULT")
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)


def test_a_proven_context_is_loaded_without_a_child_until_the_plugin_changes(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _session(fresh).close()
    monkeypatch.setattr(plugin_context_loader, "Worker", None)
    with _session(fresh) as session:
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    metadata = tmp_path / "plugin" / "fake-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    plugins.installed_plugins.cache_clear()
    with pytest.raises(EpContextError, match="not callable"):
        _session(fresh)


@pytest.mark.skipif(sys.platform == "win32", reason="names POSIX signals")
def test_a_cached_context_that_ends_the_child_is_compiled_anew(
    machine: Path,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del machine
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", str(tmp_path / "contexts"))
    ortpkg.InferenceSession(model, options, providers=[FAKE]).close()
    monkeypatch.setattr(first_load, "read_fact", lambda *_arguments: None)
    monkeypatch.setenv("FAKE_FAULT", "load:abort")
    with (
        caplog.at_level(logging.WARNING),
        ortpkg.InferenceSession(model, options, providers=[FAKE]) as session,
    ):
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
    assert "a cached context of FakeExecutionProvider is dropped" in caplog.text
    assert "it was ended by SIGABRT" in caplog.text
