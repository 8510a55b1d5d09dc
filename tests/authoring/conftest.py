"""Tiny models to make packages of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.authoring.create import create
from ortpkg.authoring.new_variant import NewVariant

ModelMaker = Callable[..., Path]


@pytest.fixture(autouse=True)
def locks_of_this_test(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Locks lie in a directory of the test, not of the user."""
    directory = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: directory
    )
    return directory


@pytest.fixture
def make_model(tmp_path: Path) -> ModelMaker:
    """Writes ``models/<name>.onnx``: x + 1, with the signature asked for."""

    def make(
        name: str = "a",
        *,
        signature: str = "(float[batch, 4] x) => (float[batch, 4] y)",
        **props: str,
    ) -> Path:
        text = f'<ir_version: 9, opset_import: ["" : 17]> agraph {signature} {{ y = Identity(x) }}'
        model = onnx.parser.parse_model(text)
        helper.set_model_props(model, props)
        path = tmp_path / "models" / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)
        return path

    return make


@pytest.fixture
def make_model_with_data(tmp_path: Path) -> ModelMaker:
    """Writes a folder with a model whose weights lie in ``location``."""

    def make(
        name: str = "big", *, location: str = "weights.bin", nbytes: int | None = None
    ) -> Path:
        weights = np.arange(16, dtype=np.float32).reshape(4, 4)
        tensor = numpy_helper.from_array(weights, "w")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", location),
            ("offset", "0"),
            ("length", str(weights.nbytes)),
        ):
            tensor.external_data.add(key=key, value=value)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
            [tensor],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        data = folder / location
        if data.resolve().is_relative_to(folder.resolve()):
            data.parent.mkdir(parents=True, exist_ok=True)
            data.write_bytes(weights.tobytes()[: weights.nbytes if nbytes is None else nbytes])
        return folder / f"{name}.onnx"

    return make


@pytest.fixture
def make_context_model(tmp_path: Path) -> ModelMaker:
    """Writes a folder with a compiled model: one EPContext node, its context in a file."""

    def make(
        name: str = "net_ctx",
        *,
        source: str = "QNN",
        context: str = "net_qnn.bin",
        embedded: bool = False,
        **props: str,
    ) -> Path:
        node = helper.make_node(
            "EPContext",
            ["x"],
            ["y"],
            domain="com.microsoft",
            embed_mode=int(embedded),
            ep_cache_context="payload" if embedded else context,
            source=source,
            hardware_architecture="v73",
        )
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        helper.set_model_props(model, props)
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / f"{name}.onnx")
        if not embedded:
            (folder / context).write_bytes(b"compiled")
        return folder / f"{name}.onnx"

    return make


@pytest.fixture
def package(tmp_path: Path, make_model: ModelMaker) -> Path:
    """A package with one variant."""
    return create(tmp_path / "p.ortpackage", [NewVariant.for_cpu(make_model("a"))]).root
