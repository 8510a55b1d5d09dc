"""Models with weights in data files, packed in many ways, and what runtimes make of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant
from ortpkg.package.integrity.digest_check import compute_digests
from ortpkg.package.integrity.digests import dump_digests
from ortpkg.package.reader import open_package
from ortpkg.runtime.session.inference_session import InferenceSession

Array = npt.NDArray[np.float32]

SIZE = 16  # a weight of SIZE x SIZE floats has 1 KiB
EPS = ("cpu", "cuda", "openvino", "qnn", "dml")


def weight(seed: int, size: int = SIZE) -> Array:
    """A weight; the same seed gives the same bytes."""
    return (np.random.default_rng(seed).standard_normal((size, size)) / size).astype(np.float32)


def external(name: str, array: Array, location: str, offset: int, **entries: Any) -> TensorProto:
    tensor = numpy_helper.from_array(array, name)
    return with_location(
        tensor, location=location, offset=offset, **({"length": array.nbytes} | entries)
    )


def with_location(tensor: TensorProto, **entries: Any) -> TensorProto:
    """The tensor's header, with the entries (those that are not None) as its external data."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def make_model(
    folder: Path,
    weights: Mapping[str, Array],
    *,
    location: str = "weights.bin",
    packing: Sequence[str] | None = None,
    padding: int = 0,
    embedded: Sequence[str] = (),
    name: str = "model.onnx",
    **entries: Any,
) -> Path:
    """Writes a model that multiplies its input by each of ``weights`` in turn.

    ``packing`` is the order of the weights in the data file, ``padding`` the bytes in front of
    each, ``embedded`` those that lie in the model, ``entries`` more entries of each tensor's
    external data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data, offsets = bytearray(), {}
    for each in packing or weights:
        data += bytes(padding)
        offsets[each] = len(data)
        data += weights[each].tobytes()
    tensors = [
        numpy_helper.from_array(array, each)
        if each in embedded
        else external(each, array, location, offsets[each], **entries)
        for each, array in weights.items()
    ]
    if len(embedded) < len(weights):
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(data)
    return save_chain(folder / name, tensors)


def save_chain(path: Path, tensors: Sequence[TensorProto]) -> Path:
    """A model with ``tensors`` as its weights, which may refer to data that is there already."""
    values = ["x", *(f"h{index}" for index in range(len(tensors) - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [values[index], tensor.name], [values[index + 1]])
        for index, tensor in enumerate(tensors)
    ]
    size = tensors[0].dims[0]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", size])],
        list(tensors),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def make_package(root: Path, models: Mapping[str, Path]) -> Path:
    """A package with a variant for each model."""
    variants = [
        NewVariant(model=path, name=name, ep=ep)
        for (name, path), ep in zip(models.items(), EPS, strict=False)
    ]
    return create(root, variants).root


def edit_metadata(root: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """Makes the package one of the metadata generation alone, whose variants ``edit`` changes.

    Returns the document.
    """
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest = {
        key: value for key, value in manifest.items() if key not in ("schema_version", "components")
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    path = root / "models/model/metadata.json"
    metadata = json.loads(path.read_bytes())
    metadata.pop("variants", None)
    edit(metadata["model_variants"])
    path.write_text(json.dumps(metadata), encoding="utf-8")
    record(root)
    return path


def record(root: Path) -> None:
    """Writes digests.json for the files as they are."""
    (root / "digests.json").write_bytes(dump_digests(compute_digests(root)))


def results_of(root: Path) -> dict[str, list[Array]]:
    """Variant → what our engine, the onnx package and onnxruntime compute, each from its path."""
    found = {}
    for component in open_package(root).components:
        for variant in component.variants:
            assert variant.model_path is not None
            found[f"{component.name}/{variant.name}"] = outputs_of(variant.model_path)
    return found


def outputs_of(path: Path) -> list[Array]:
    """What three runtimes compute; they must agree, and onnx's checker accept the file."""
    onnx.checker.check_model(str(path))
    size = (
        onnx.load(path, load_external_data=False)
        .graph.input[0]
        .type.tensor_type.shape.dim[1]
        .dim_value
    )
    feeds = {"x": np.linspace(-1, 1, 3 * size, dtype=np.float32).reshape(3, size)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # to start and end threads takes longer than the model
    outputs: list[Array] = [
        np.asarray(InferenceSession(path).run(None, feeds)[0]),
        ReferenceEvaluator(onnx.load(path)).run(None, feeds)[0],
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(
            None, feeds
        )[0],
    ]
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-4, atol=1e-5)
    return outputs


def assert_same_results(
    before: Mapping[str, Sequence[Array]], after: Mapping[str, Sequence[Array]]
) -> None:
    """Every variant gives bit for bit what it gave, in every runtime."""
    assert before.keys() == after.keys()
    for variant, outputs in before.items():
        for old, new in zip(outputs, after[variant], strict=True):
            np.testing.assert_array_equal(old, new, err_msg=variant)


def nbytes_of(root: Path) -> int:
    """Size of all models and data."""
    return sum(
        path.stat().st_size for path in root.rglob("*") if path.is_file() and path.suffix != ".json"
    )


def copy_of(package: Path, name: str) -> Path:
    return Path(shutil.copytree(package, package.parent / f"{name}.ortpackage"))
