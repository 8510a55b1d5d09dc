"""dedup, add-variant --share-weights and diff, as a publisher uses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import RunCommand


def make_model(folder: Path, seed: int, location: str) -> Path:
    """A model with 4 KiB of weights in a data file."""
    array = np.random.default_rng(seed).standard_normal((32, 32)).astype(np.float32)
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32]) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node], "g", value[:1], value[1:], [numpy_helper.from_array(array, "w")]
    )
    folder.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        folder / "model.onnx",
        save_as_external_data=True,
        location=location,
    )
    return folder / "model.onnx"


@pytest.fixture
def package(ortpkg: RunCommand, tmp_path: Path) -> Path:
    root = tmp_path / "p.ortpackage"
    models = {name: make_model(tmp_path / name, 1, f"{name}.bin") for name in ("one", "two")}
    assert ortpkg("create", root, "--cpu", models["one"], "--gpu", models["two"]).code == 0
    return root


def test_dedup_says_what_it_would_save_then_saves_it(ortpkg: RunCommand, package: Path) -> None:
    before = {path for path in package.rglob("*") if path.is_file()}
    tried = ortpkg("dedup", package, "--dry-run")
    assert tried.code == 0
    assert "4096 bytes would be saved" in tried.err
    assert f"in {package}; nothing was changed" in tried.err
    assert {path for path in package.rglob("*") if path.is_file()} == before
    foretold = ortpkg("dedup", package, "--dry-run", "--json").json

    done = ortpkg("dedup", package)

    assert done.code == 0
    after = {path for path in package.rglob("*") if path.is_file()}
    assert {each["file"] for each in foretold["adds"]} == {
        path.relative_to(package).as_posix() for path in after - before
    }
    assert all(path.is_relative_to(package / foretold["removes"][0]) for path in before - after)
    assert "model/model-gpu  models/model/model-cpu/model-gpu.onnx" in done.out
    assert "models/model/model-gpu/two.bin" in done.out
    assert "4096" in done.out
    assert "saved 4096 bytes (4.1 kB)" in done.err
    assert ortpkg("validate", package).code == 0
    again = ortpkg("dedup", package).err
    assert (
        "nothing to save; nothing was changed (weights inside the ONNX files count with"
        " --externalize SIZE)" in again
    )
    assert (
        ortpkg("dedup", package, "--externalize", "64kB").err
        == "nothing to save; nothing was changed\n"
    )


def test_dedup_as_json(ortpkg: RunCommand, package: Path) -> None:
    found = ortpkg("dedup", package, "--json").json

    assert (found["kind"], found["dry_run"], found["saved_nbytes"]) == ("dedup", False, 4096)
    assert found["moved"] == [
        {
            "component": "model",
            "variant": "model-gpu",
            "folder": "models/model/model-cpu",
            "model_file": "models/model/model-cpu/model-gpu.onnx",
        }
    ]
    assert {each["file"]: each["nbytes"] for each in found["removed"]}[
        "models/model/model-gpu/two.bin"
    ] == 4096
    assert found["left_out"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layout", "flat"], "the layout 'flat' is none of"),
        (["--externalize", "16"], "stay in the model, 16 was"),
    ],
)
def test_dedup_refuses_what_makes_no_sense(
    ortpkg: RunCommand, package: Path, words: list[str], message: str
) -> None:
    done = ortpkg("dedup", package, *words)

    assert done.code == 2
    assert message in done.err


def test_a_variant_that_shares_is_added_without_its_data(
    ortpkg: RunCommand, package: Path, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "three", 1, "three.bin")

    done = ortpkg(
        "add-variant", package, model, "--variant", "three", "--ep", "qnn", "--share-weights"
    )

    assert done.code == 0
    assert "variant 'three' shares weights with 'model-cpu': 4" in done.err
    assert not list(package.rglob("three.bin"))
    assert ortpkg("validate", package).code == 0


def test_diff_is_silent_on_equal_packages_and_names_what_differs(
    ortpkg: RunCommand, package: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.ortpackage"
    models = {
        name: make_model(tmp_path / f"new {name}", seed, "w.bin")
        for name, seed in (("one", 1), ("two", 2))
    }
    assert (
        ortpkg("create", other, "--name", "p", "--cpu", models["one"], "--npu", models["two"]).code
        == 0
    )
    same = ortpkg("diff", package, package)
    assert (same.code, same.out) == (0, "")
    assert "no difference in meaning" in same.err

    found = ortpkg("diff", package, other)

    assert found.code == 1
    assert found.out.splitlines() == ["- variant model/model-gpu", "+ variant model/model-npu"]


def test_diff_shows_weights_constraints_and_operators(
    ortpkg: RunCommand, package: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.ortpackage"
    models = {
        name: make_model(tmp_path / f"new {name}", seed, "w.bin")
        for name, seed in (("one", 1), ("two", 2))
    }
    model = onnx.load(models["two"], load_external_data=False)
    model.graph.node[0].output[0] = "h"
    model.graph.node.append(helper.make_node("Relu", ["h"], ["y"]))
    onnx.save(model, models["two"])
    words = ["--cpu", models["one"], "--variant", f"cuda:gpu={models['two']}"]
    assert ortpkg("create", other, "--name", "p", *words).code == 0

    found = ortpkg("diff", package, other)

    lines = [line.strip() for line in found.out.splitlines()]
    assert lines[0].startswith("~ variant model/model-gpu (")
    assert "constraint ep: none → CUDAExecutionProvider" in lines
    assert "operator ai.onnx::Relu: 0 → 1" in lines
    assert "weights: 1 differ, 0 are equal" in lines
    assert any(line.startswith("~ w float[32, 32], max |Δ| ") for line in lines)
    (variant,) = ortpkg("diff", package, other, "--json").json["variants_changed"]
    assert variant["model"]["operators"] == [{"operator": "ai.onnx::Relu", "old": 0, "new": 1}]
    assert variant["model"]["weights"][0]["old"]["shape"] == [32, 32]


def test_diff_of_what_is_no_package_is_an_error_not_a_difference(
    ortpkg: RunCommand, package: Path
) -> None:
    assert ortpkg("diff", package, package / "models").code == 4


def test_inspect_and_slim_tell_own_bytes_from_shared_ones(
    ortpkg: RunCommand, package: Path
) -> None:
    assert "shared" not in ortpkg("inspect", package).out
    apart = {
        each["name"]: each
        for each in ortpkg("inspect", package, "--json").json["component_models"][0]["variants"]
    }
    assert ortpkg("dedup", package).code == 0

    shown = ortpkg("inspect", package)
    variants = {
        each["name"]: each
        for each in ortpkg("inspect", package, "--json").json["component_models"][0]["variants"]
    }

    assert "own size" in shown.out
    assert "shared" in shown.out
    assert {each["shared_nbytes"] for each in apart.values()} == {0}
    assert {each["shared_nbytes"] for each in variants.values()} == {4096}
    assert all(0 < each["own_nbytes"] < 1024 for each in variants.values())
    assert all(each["nbytes"] == each["own_nbytes"] + 4096 for each in variants.values())

    slimmed = ortpkg("slim", package, "--device", "cpu", "--in-place", "--json")
    assert [(each["shared_nbytes"], each["kept"]) for each in slimmed.json["variants"]] == [
        (4096, True),
        (4096, False),
    ]
