"""Commands on a bare ONNX file, and on a packed package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ortpkg.api.archive import pack
from tests.cli.conftest import DIGITS, RunCommand
from tests.npz import arrays_in

MakeModel = Callable[..., Path]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack(DIGITS, tmp_path / "digits.ortpkg").path


def test_a_bare_model_runs_on_random_inputs(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> None:
    words = ("run", model(), "--random", "--dim", "N=4", "--backend", "embedded", "-o")
    for seed in ("0", "0", "1"):
        assert ortpkg(*words, tmp_path / f"{seed}.npz", "--seed", seed).code == 0
    first, other = (arrays_in(tmp_path / name)["y"] for name in ("0.npz", "1.npz"))
    assert first.shape == (4, 3)
    assert not np.array_equal(first, other)


def test_a_bare_model_needs_inputs(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg("run", model())
    assert done.code == 2
    assert "model 'double' carries no samples: give --input NAME=FILE for 'x', or --random" in done.err
    assert "--dim gives random inputs a size: it needs --random" in ortpkg("run", model(), "--dim", "N=1").err


def test_a_bare_model_is_shown_with_its_inputs_and_outputs(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg("inspect", model())
    assert "double: bare model, " in done.out
    assert "inputs: x tensor(float) [N, 3]" in done.out


def test_a_bare_model_is_measured(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg("bench", model(), "--backend", "embedded", "--repeat", "2", "--rounds", "1", "--json")
    assert [each["variant"] for each in done.json["results"]] == ["double"]


def test_a_packed_package_runs_its_samples(ortpkg: RunCommand, packed: Path) -> None:
    done = ortpkg("run", packed, "--backend", "embedded")
    assert done.code == 0
    assert "357 of 360 right" in done.out


def test_a_packed_package_is_shown_by_the_name_that_was_given(ortpkg: RunCommand, packed: Path) -> None:
    assert f"digits 1.0.0: universal format, {packed}" in ortpkg("inspect", packed).out
    assert ortpkg("inspect", packed, "--json").json["root"] == str(packed)
    assert ortpkg("verify", packed).code == 0
    assert ortpkg("validate", packed).code == 0
    assert ortpkg("diff", packed, DIGITS).code == 0


def test_create_makes_a_package_of_a_model_right_here(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ortpkg("create", model()).code == 0
    assert (
        ortpkg("inspect", "double.ortpackage", "--json").json["component_models"][0]["variants"][0]["name"] == "double"
    )


def test_create_makes_a_packed_package(ortpkg: RunCommand, model: MakeModel, tmp_path: Path) -> None:
    packed = tmp_path / "d.ortpkg"
    assert ortpkg("create", packed, "--cpu", model(), "--json").json["root"] == str(packed)
    assert ortpkg("verify", packed).code == 0
    done = ortpkg("create", packed, "--cpu", model())
    assert done.code == 4
    assert "exists already" in done.err


def test_a_packed_package_and_a_bare_model_are_planned_and_selected(
    ortpkg: RunCommand, packed: Path, model: MakeModel
) -> None:
    assert "memory pattern" in ortpkg("plan", packed, "--variant", "cpu-fp32").out
    assert ortpkg("select", packed, "--device", "cpu", "--json").json["selections"][0]["selected"] is not None
    assert ortpkg("select", model(), "--json").code == 0


def test_what_is_selected_of_a_packed_package_is_named_by_its_place_in_the_file(
    ortpkg: RunCommand, packed: Path
) -> None:
    words = ("select", packed, "--variant", "cpu-fp32")
    place = packed / "models/classifier/cpu-fp32/model.onnx"
    assert ortpkg(*words).out.splitlines()[1].strip() == str(place)
    assert ortpkg(*words, "--json").json["selections"][0]["package"]["root"] == str(packed)
    assert str(packed) in ortpkg(*words, DIGITS).out  # what tells two packages of one name apart


def test_packed_packages_are_checked_against_releases_and_asked_about_the_cache(
    ortpkg: RunCommand, packed: Path, model: MakeModel
) -> None:
    assert (
        ortpkg("migrate-check", packed, "--json").json["releases"]
        == (ortpkg("migrate-check", DIGITS, "--json").json["releases"])
    )
    done = ortpkg("migrate-check", model())
    assert (done.code, "is no package: ortpkg create" in done.err) == (2, True)
    assert ortpkg("cache", "why", packed, "--variant", "cpu-fp32").code == 0
    assert "a model file needs --ep" in ortpkg("cache", "why", model()).err


def test_measurements_of_a_bare_model_are_recorded(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))
    words = ("--repeat", "2", "--rounds", "1", "--dim", "N=2", "--backend", "embedded")
    done = ortpkg("bench", model(), *words)
    assert done.code == 0, done.err
    assert "cannot be read" not in done.err
    assert "recorded: ortpkg select --policy measured" in done.err
