"""What is chosen where a backend is asked for, and the best variant is compiled for another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.cli.app import run as run_command_line
from ortpkg.foundations.errors import NoSuitableVariantError, UsageError
from ortpkg.selection.matching.verdict import ReasonCode
from tests.ep_context.compiling import compiled
from tests.ep_context.conftest import EXPECTED, X


@pytest.fixture
def both(package: Path, machine: Path) -> ortpkg.ModelPackage:
    """A plain variant, and the one that llvm made of it, which is better."""
    del machine
    compiled(package)
    opened = ortpkg.ModelPackage(package)
    assert opened.best_variant().name == "plain-llvm"
    return opened


@pytest.mark.parametrize(("backend", "name"), [("embedded", "plain"), ("llvm", "plain-llvm")])
def test_the_best_variant_of_those_that_run_on_the_backend_is_chosen(
    both: ortpkg.ModelPackage, backend: str, name: str
) -> None:
    best = both.best_variant(backend=backend)
    assert best.name == name
    assert best.verdict().ep_device is not None
    assert {each.ep_device.backend for each in best.eligible_verdicts() if each.ep_device} == {
        backend
    }
    for session in (both.create_session(backend=backend), best.create_session()):
        assert isinstance(session, ortpkg.InferenceSession)
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)


def test_what_is_compiled_for_another_backend_falls_with_the_reason(
    both: ortpkg.ModelPackage,
) -> None:
    selection = both.select(backend="embedded")
    fallen = {
        each.code: each.reason for each in selection.verdicts if each.variant.name == "plain-llvm"
    }
    assert (
        fallen[ReasonCode.BACKEND_NOT_REQUESTED]
        == "it is for 'LLVMExecutionProvider'; only backend 'embedded' was asked for, and this"
        " EP device is of 'llvm'"
    )
    with pytest.raises(
        NoSuitableVariantError, match="BACKEND_NOT_REQUESTED: it is for 'LLVMExecutionProvider'"
    ):
        both.best_variant(variant="plain-llvm", backend="embedded")


def test_a_mistyped_backend_is_named(both: ortpkg.ModelPackage) -> None:
    with pytest.raises(UsageError, match=r"no backend 'embeded' \(did you mean 'embedded'"):
        both.select(backend="embeded")


def test_the_first_try_in_a_child_is_made_of_what_runs_there(both: ortpkg.ModelPackage) -> None:
    assert both.best_variant(backend="embedded", canary=True).name == "plain"


def test_commands_choose_by_the_backend(
    both: ortpkg.ModelPackage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", X)
    words = [str(both.root), "--backend", "embedded"]
    assert run_command_line(["run", *words, "--input", f"x={tmp_path / 'x.npy'}", "--json"]) == 0
    assert [each["variant"] for each in json.loads(capsys.readouterr().out)["ran"]] == ["plain"]
    assert run_command_line(["select", *words, "--json"]) == 0
    (selection,) = json.loads(capsys.readouterr().out)["selections"]
    assert (selection["backend"], selection["selected"]["variant"]) == ("embedded", "plain")
    assert run_command_line(["cache", "why", *words]) == 0
    assert "/plain on CPUExecutionProvider" in capsys.readouterr().out
    assert run_command_line(["run", *words, "--variant", "plain-llvm"]) == 3
    assert "asked for: policy default, backend embedded" in capsys.readouterr().err
