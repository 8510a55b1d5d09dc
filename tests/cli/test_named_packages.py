"""Commands on a bare ONNX file, and on a packed package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from ortpkg.api.packing import pack
from tests.cli.conftest import DIGITS, RunCommand
from tests.npz import arrays_in

pytestmark = pytest.mark.usefixtures("warm_processes")

MakeModel = Callable[..., Path]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack(DIGITS, tmp_path / "digits.ortpkg").path


def test_a_bare_model_runs_on_random_inputs(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    words = (
        "run",
        model(),
        "--random",
        "--dim",
        "N=4",
        "--backend",
        "embedded",
        "--overwrite",
        "-o",
    )
    for seed in ("0", "0", "1"):
        assert ortpkg(*words, tmp_path / f"{seed}.npz", "--seed", seed).code == 0
    first, other = (arrays_in(tmp_path / name)["y"] for name in ("0.npz", "1.npz"))
    assert first.shape == (4, 3)
    assert not np.array_equal(first, other)


def test_a_bare_model_needs_inputs(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg("run", model())
    assert done.code == 2
    assert (
        "model 'double' carries no samples: give --input NAME=FILE for 'x', or --random" in done.err
    )
    assert (
        "--dim gives random inputs a size: it needs --random"
        in ortpkg("run", model(), "--dim", "N=1").err
    )


def test_a_bare_model_is_shown_with_its_inputs_and_outputs(
    ortpkg: RunCommand, model: MakeModel
) -> None:
    done = ortpkg("inspect", model())
    assert "double: bare model, " in done.out
    assert "inputs: x tensor(float) [N, 3]" in done.out


def test_a_bare_model_is_measured(ortpkg: RunCommand, model: MakeModel) -> None:
    done = ortpkg(
        "bench", model(), "--backend", "embedded", "--repeat", "2", "--rounds", "1", "--json"
    )
    assert [each["variant"] for each in done.json["results"]] == ["double"]


def test_a_packed_package_runs_its_samples(ortpkg: RunCommand, packed: Path) -> None:
    done = ortpkg("run", packed, "--backend", "embedded")
    assert done.code == 0
    assert "357 of 360 right" in done.out


def test_a_packed_package_is_shown_by_the_name_that_was_given(
    ortpkg: RunCommand, packed: Path
) -> None:
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
        ortpkg("inspect", "double.ortpackage", "--json").json["component_models"][0]["variants"][0][
            "name"
        ]
        == "double"
    )


def test_create_makes_a_packed_package(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
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
    assert (
        ortpkg("select", packed, "--device", "cpu", "--json").json["selections"][0]["selected"]
        is not None
    )
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


def _with_data_outside(folder: Path) -> Path:
    """A model whose weight of 4 kB lies in ``weights.data`` beside it."""
    folder.mkdir()
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[1, 1000] x) => (float[1, 1000] y) { y ='
        " Add(x, w) }"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1000, np.float32), "w"))
    onnx.save(
        proto,
        folder / "m.onnx",
        save_as_external_data=True,
        location="weights.data",
        size_threshold=0,
    )
    return folder / "m.onnx"


def _in_a_cache(model: Path, folder: Path) -> Path:
    """Moves model and data into ``blobs``, with links in a snapshot, as Hugging Face's cache."""
    blobs, snapshot = folder / "blobs", folder / "snapshots/abc/onnx"
    snapshot.mkdir(parents=True)
    model.parent.rename(blobs)
    for number, name in enumerate(("m.onnx", "weights.data")):
        (blobs / name).rename(blobs / f"{number:064x}")
        (snapshot / name).symlink_to(f"../../../blobs/{number:064x}")
    return snapshot / "m.onnx"


def _linked_alone(model: Path, folder: Path) -> Path:
    """Moves the model elsewhere, with a link to it beside its data."""
    (folder / "elsewhere").mkdir()
    model.rename(folder / "elsewhere/other.onnx")
    model.symlink_to("../elsewhere/other.onnx")
    return model


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege here")
@pytest.mark.parametrize("linked", [_in_a_cache, _linked_alone])
def test_a_linked_model_has_its_data_beside_the_link(
    ortpkg: RunCommand, tmp_path: Path, linked: Callable[[Path, Path], Path]
) -> None:
    plain = _with_data_outside(tmp_path / "plain")
    model = linked(_with_data_outside(tmp_path / "made"), tmp_path)

    done = ortpkg("run", model, "--random", "--backend", "embedded")
    assert done.code == 0, done.err
    assert ortpkg("validate", model).code == 0
    assert ortpkg("diff", model, plain).code == 0
    assert str(model) in ortpkg("select", model).out
    sizes = [ortpkg("inspect", each).out.splitlines()[-1] for each in (model, plain)]
    assert sizes[0] == sizes[1]


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need a privilege here")
def test_a_model_that_is_no_link_has_no_data_behind_foreign_links(
    ortpkg: RunCommand, tmp_path: Path
) -> None:
    model = _with_data_outside(tmp_path / "made")
    data = model.with_name("weights.data")
    data.rename(tmp_path / "secret")
    data.symlink_to("../secret")
    assert "ORT101 error" in ortpkg("validate", model).out
    assert "is reached through a symbolic link" in ortpkg("diff", model, model).err


def test_messages_say_what_there_is_and_what_would_be_right(
    ortpkg: RunCommand, tmp_path: Path, model: Callable[..., Path]
) -> None:
    package, gone = tmp_path / "p", tmp_path / "gone"
    assert ortpkg("create", package, "--cpu", model()).code == 0
    assert "format:" not in ortpkg("diff", package, model()).err
    missing = " ".join(ortpkg("inspect", gone).err.split())
    assert "name.ortpkg" in missing
    assert "name.onnx" in missing
    merged = ortpkg("merge", package, gone, "-o", tmp_path / "new")
    assert "does not exist" in merged.err
    assert "has no digests.json" not in merged.err
    words = (
        "samples",
        "record",
        package,
        "--name",
        "s",
        "--random",
        "--dim",
        "N=2",
        "--backend",
        "embedded",
    )
    assert ortpkg(*words).code == 0
    assert "--overwrite" in ortpkg(*words).err
