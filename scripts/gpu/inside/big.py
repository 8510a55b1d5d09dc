"""A model with float16 weights beyond 2 GiB in a file beside it, by ortpkg or by onnxruntime.

big make FOLDER NBYTES
big ortpkg|onnxruntime FOLDER EP
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

_WIDTH = 8192
_ITEM = 2
_BLOCK_ROWS = 512


def make(folder: Path, nbytes: int) -> dict[str, Any]:
    """Write layers of 8192 x 8192 until they have so many bytes, drawn once and repeated."""
    layers = max(1, -(-nbytes // (_WIDTH * _WIDTH * _ITEM)))
    draw = np.random.default_rng(4)
    block = draw.normal(0, 1 / np.sqrt(_WIDTH), (_BLOCK_ROWS, _WIDTH)).astype(np.float16)
    weights, nodes, value = [], [], "x"
    with (folder / "big.bin").open("wb") as file:
        for layer in range(layers):
            weights.append(_weight(f"w{layer}", file.tell()))
            for start in range(0, _WIDTH, _BLOCK_ROWS):
                rolled = np.roll(block, 17 * layer + start, axis=1)
                file.write(rolled.tobytes())
            following = "y" if layer == layers - 1 else f"v{layer}"
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [following]))
            value = following
    shape = [1, _WIDTH]
    graph = helper.make_graph(
        nodes,
        "big",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "big.onnx").write_bytes(model.SerializeToString())
    return {"nbytes": layers * _WIDTH * _WIDTH * _ITEM, "layers": layers}


def _weight(name: str, offset: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=[_WIDTH, _WIDTH])
    tensor.data_location = TensorProto.EXTERNAL
    nbytes = _WIDTH * _WIDTH * _ITEM
    for key, text in (("location", "big.bin"), ("offset", offset), ("length", nbytes)):
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def run(how: str, folder: Path, ep: str) -> dict[str, Any]:
    """Load and run the model; save the output beside it, and return the figures."""
    feed = {"x": np.random.default_rng(5).normal(0, 1, (1, _WIDTH)).astype(np.float16)}
    path = str(folder / "big.onnx")
    start_s = time.perf_counter()
    placement: list[dict[str, Any]] = []
    if how == "ortpkg":
        import ortpkg

        own = ortpkg.InferenceSession(path, providers=[ep], backend="onnxruntime")
        placement = [
            {"ep": entry.ep_name, "nodes": entry.node_count, "fallback": entry.is_fallback}
            for entry in own.get_placement().entries
        ]
        session: Any = own
    else:
        import onnxruntime

        from ortpkg.runtime.providers.nvidia_libraries import prepare_nvidia_libraries

        prepare_nvidia_libraries(onnxruntime)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=[ep], enable_fallback=0)
        placement = [{"ep": name} for name in session.get_providers()]
    load_s = time.perf_counter() - start_s
    (output,) = session.run(None, feed)
    start_s = time.perf_counter()
    (output,) = session.run(None, feed)
    run_s = time.perf_counter() - start_s
    np.save(folder / f"big_{how}.npy", output)
    return {
        "load_s": load_s,
        "run_s": run_s,
        "peak_nbytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "placement": placement,
        "is_finite": bool(np.isfinite(output).all()),
        "difference": _difference(folder),
    }


def _difference(folder: Path) -> float | None:
    """Return the largest difference of both outputs, relative to the largest number."""
    paths = [folder / f"big_{how}.npy" for how in ("ortpkg", "onnxruntime")]
    if not all(path.is_file() for path in paths):
        return None
    one, other = (np.load(path).astype(np.float64) for path in paths)
    return float(np.abs(one - other).max() / np.abs(other).max())


if __name__ == "__main__":
    path = Path(sys.argv[2])
    answer = (
        make(path, int(sys.argv[3]))
        if sys.argv[1] == "make"
        else run(sys.argv[1], path, sys.argv[3])
    )
    print(json.dumps(answer))
