"""Models of large weights for native libraries: products of one row with matrices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

SIZE = 64
X = np.linspace(-1, 2, SIZE, dtype=np.float32).reshape(1, SIZE)


def matrix(number: int) -> npt.NDArray[Any]:
    """Return weight ``number``, of SIZE x SIZE float32 numbers."""
    values = np.random.default_rng(number).standard_normal((SIZE, SIZE))
    return (values / 8).astype(np.float32)


def expected(count: int) -> npt.NDArray[Any]:
    """Return the output for X of a model with ``count`` weights."""
    y = X
    for number in range(count):
        y = y @ matrix(number)
    return y


def save_products(
    folder: Path,
    count: int,
    *,
    size: int = SIZE,
    locations: Sequence[str] | None = None,
    doc_string: str = "",
) -> Path:
    """Save y = x @ w0 @ w1 ... as model.onnx.

    Args:
        folder: folder of the model; made if it does not exist.
        count: number of weights.
        size: rows and columns of a weight; if not SIZE, weights are zero and files sparse.
        locations: file of each weight, "" for the model itself; default: all in weights.bin.
        doc_string: text in the model that shifts the weights behind it in the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ends: dict[str, int] = {}
    weights = []
    for number, location in enumerate(locations or ["weights.bin"] * count):
        tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[size, size])
        if not location:
            tensor.raw_data = matrix(number).tobytes()
        else:
            offset = ends.get(location, 0)
            ends[location] = offset + size * size * 4
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (
                ("location", location),
                ("offset", offset),
                ("length", size * size * 4),
            ):
                tensor.external_data.add(key=key, value=str(value))
            _write(folder / location, offset, matrix(number).tobytes() if size == SIZE else b"")
        weights.append(tensor)
    for location, nbytes in ends.items():
        with (folder / location).open("r+b") as file:
            file.truncate(nbytes)
    values = ["x", *(f"y{number}" for number in range(count))]
    nodes = [
        helper.make_node("MatMul", [values[number], f"w{number}"], [values[number + 1]])
        for number in range(count)
    ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size])],
        [helper.make_tensor_value_info(values[-1], TensorProto.FLOAT, [1, size])],
        weights,
        doc_string=doc_string,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    model.doc_string = doc_string
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def _write(path: Path, offset: int, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(data)
