"""The tree of pull request 27786, ``shared_weights/<checksum>/model.data``, written and read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ortpkg
from ortpkg import NewVariant
from ortpkg.authoring.package_checks import validate
from ortpkg.package.reader import open_package

WEIGHTS = np.random.default_rng(1).standard_normal((64, 64), dtype=np.float32)
X = np.ones((1, 64), np.float32)


def write_model(folder: Path, location: str) -> Path:
    """y = x @ w, with w in a data file beside it."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 64]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y])
    graph.initializer.append(numpy_helper.from_array(WEIGHTS, "w"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    folder.mkdir(parents=True)
    onnx.save(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location=location,
        size_threshold=0,
    )
    return folder / "model.onnx"


@pytest.mark.requirement("K01", "K23")
@pytest.mark.parametrize("form", ["universal", "metadata", "component"])
def test_it_is_written_as_everybody_loads_it(tmp_path: Path, form: str) -> None:
    root = tmp_path / "p.ortpackage"
    models = {name: write_model(tmp_path / name, f"{name}.data") for name in ("cpu", "ov")}
    ortpkg.create(
        root,
        [
            NewVariant(model=models["cpu"], name="cpu", ep="cpu"),
            NewVariant(model=models["ov"], name="ov", ep="openvino"),
        ],
        form=form,
    )

    ortpkg.dedup(root, layout="shared-weights")

    (data,) = root.rglob("model.data")
    checksum = hashlib.sha256(data.read_bytes()).hexdigest()
    assert data == root / "models" / "model" / "shared_weights" / checksum / "model.data"
    assert not [each for each in root.rglob("*.data") if each != data]
    package = ortpkg.ModelPackage(root)
    for name in ("cpu", "ov"):
        variant = package.best_variant(variant=name)
        assert variant.model_path == root / "models" / "model" / f"{name}.onnx"
        (weights,) = onnx.load(variant.model_path).graph.initializer
        np.testing.assert_array_equal(numpy_helper.to_array(weights), WEIGHTS)
        for session in (variant.create_session(), onnxruntime.InferenceSession(variant.model_path)):
            np.testing.assert_allclose(
                session.run(None, {"x": X})[0], X @ WEIGHTS, rtol=1e-3, atol=1e-3
            )
    assert [str(each) for each in validate(root)] == []
    ortpkg.remove_variant(root, "ov")
    assert data.is_file()
    assert [str(each) for each in validate(root)] == []


@pytest.mark.requirement("K23")
@pytest.mark.parametrize("form", ["universal", "metadata", "component"])
def test_a_variant_that_is_added_later_shares_it_too(tmp_path: Path, form: str) -> None:
    root = tmp_path / "p.ortpackage"
    models = [write_model(tmp_path / name, f"{name}.data") for name in ("cpu", "ov")]
    variants = [
        NewVariant(model=model, name=model.parent.name, ep=model.parent.name) for model in models
    ]
    ortpkg.create(root, variants, form=form)
    ortpkg.dedup(root, layout="shared-weights")
    (data,) = root.rglob("model.data")

    ortpkg.add_variant(
        root,
        write_model(tmp_path / "late", "late.data"),
        variant="late",
        ep="cuda",
        share_weights=True,
    )

    assert list(root.rglob("*.data")) == [data]
    late = open_package(root).components[0].variants[-1].model_path
    assert late == root / "models" / "model" / "late.onnx"
    (weights,) = onnx.load(late).graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weights), WEIGHTS)
    assert [str(each) for each in validate(root)] == []
    for name in ("cpu", "ov"):
        ortpkg.remove_variant(root, name)
    assert data.is_file()


@pytest.mark.requirement("K01", "K23")
def test_models_in_folders_of_their_own_are_read_with_the_option_that_names_the_data(
    tmp_path: Path,
) -> None:
    root = tmp_path / "p.ortpackage"
    component = root / "models" / "m"
    for name in ("cpu", "ov"):
        write_model(component / name, "model.data")
    data = (component / "ov" / "model.data").read_bytes()
    shared = f"shared_weights/{hashlib.sha256(data).hexdigest()}"
    (component / shared).mkdir(parents=True)
    (component / "ov" / "model.data").rename(component / shared / "model.data")
    (component / "cpu" / "model.data").unlink()
    option = {"session.model_external_initializers_file_folder_path": shared}
    variants = {
        name: {
            "ep": ep,
            "variant_directory": ".",
            "executor_info": {
                "ort": {"model_file": f"{name}/model.onnx", "session_options": option}
            },
        }
        for name, ep in (("cpu", "CPUExecutionProvider"), ("ov", "OpenVINOExecutionProvider"))
    }
    (component / "component.json").write_text(json.dumps({"variants": variants}))
    manifest = {"schema_version": "1.0", "package_name": "p", "components": {"m": "models/m"}}
    (root / "manifest.json").write_text(json.dumps(manifest))

    package = ortpkg.ModelPackage(root)
    for name in ("cpu", "ov"):
        session = package.best_variant(variant=name).create_session()
        np.testing.assert_allclose(
            session.run(None, {"x": X})[0], X @ WEIGHTS, rtol=1e-3, atol=1e-3
        )
    arguments = package.best_variant(variant="cpu", backend="onnxruntime").onnxruntime_args()
    outputs = onnxruntime.InferenceSession(**arguments).run(None, {"x": X})
    np.testing.assert_allclose(outputs[0], X @ WEIGHTS, rtol=1e-3, atol=1e-3)
    assert [str(each) for each in validate(root) if each.severity == "error"] == []


def test_a_variant_that_has_the_folders_name_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "p.ortpackage"
    models = {name: write_model(tmp_path / name, "w.data") for name in ("shared_weights", "other")}
    ortpkg.create(root, [NewVariant(model=path, name=name) for name, path in models.items()])
    ortpkg.dedup(root, layout="shared-weights")
    assert [str(each) for each in validate(root) if each.severity == "error"] == []
    for name in models:
        session = ortpkg.ModelPackage(root).best_variant(variant=name).create_session()
        np.testing.assert_allclose(
            session.run(None, {"x": X})[0], X @ WEIGHTS, rtol=1e-3, atol=1e-3
        )


@pytest.mark.requirement("K19", "K23")
def test_it_stays_shared_when_the_package_is_converted_slimmed_or_merged(tmp_path: Path) -> None:
    root, other = tmp_path / "p.ortpackage", tmp_path / "other.ortpackage"
    models = {name: write_model(tmp_path / name, "w.data") for name in ("cpu", "ov")}
    ortpkg.create(root, [NewVariant(model=path, name=name) for name, path in models.items()])
    ortpkg.dedup(root, layout="shared-weights")
    ortpkg.create(other, [NewVariant(model=models["cpu"], name="mine", ep="qnn")])

    made = {
        "converted": ortpkg.convert(root, "component", output=tmp_path / "converted"),
        "into it": ortpkg.merge(root, other, output=tmp_path / "into"),
        "into another": ortpkg.merge(other, root, output=tmp_path / "another"),
    }

    for name, package in made.items():
        assert len(list(package.root.rglob("model.data"))) == 1, name
        assert len(list(package.root.rglob("cpu.onnx"))) == 1, name
        assert [str(each) for each in validate(package.root) if each.severity == "error"] == []
        for each in models:
            session = ortpkg.ModelPackage(package.root).best_variant(variant=each).create_session()
            np.testing.assert_allclose(
                session.run(None, {"x": X})[0], X @ WEIGHTS, rtol=1e-3, atol=1e-3
            )
