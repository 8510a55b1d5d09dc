"""Measures opening time and memory of large models, against the native libraries alone.

    python -m benchmarks.large_models [--gib 2.3] [--products 1 16] [--rounds 3]

The models look up rows of one large table in a sparse file, and multiply by matrices of 64 MiB.
Libraries make private copies of the matrices in another layout: with few matrices the memory of
ortpkg's own code shows, with 16 it is lost in theirs. Each figure is the median of fresh processes,
in turns: seconds to make the session and run it once; peak of private memory; and peak of resident
memory, which includes mapped pages of files (Linux). Memory is counted without that of the imports.
Goal: both peaks at most 1.1 times those of the library alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime
from ortpkg.runtime.providers.quiet_openvino import openvino

_WIDTH = 4096
_IDS = np.arange(4, dtype=np.int64)
#: Contender → the modules that are loaded before memory is counted, and the library beside it.
_CONTENDERS = {
    "onnxruntime": ("onnxruntime", ""),
    "bridge to onnxruntime": ("ortpkg.runtime.session.inference_session", "onnxruntime"),
    "OpenVINO": ("openvino", ""),
    "bridge to OpenVINO": ("ortpkg.runtime.session.inference_session", "OpenVINO"),
}


def save_model(folder: Path, *, table_nbytes: int, products: int) -> Path:
    """Save a model that looks up rows of a table and multiplies them.

    All weights are 0 but the last of each matrix: onnxruntime would merge equal matrices.
    """
    shapes = {"table": (table_nbytes // (4 * _WIDTH), _WIDTH)}
    shapes |= {f"w{number}": (_WIDTH, _WIDTH) for number in range(products)}
    weights, offset = [], 0
    for name, shape in shapes.items():
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        nbytes = 4 * shape[0] * shape[1]
        for key, value in (("location", "weights.bin"), ("offset", offset), ("length", nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        offset += nbytes
        weights.append(tensor)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(offset)
        for number in range(products):
            file.seek(offset - 4 * _WIDTH * _WIDTH * (products - 1 - number) - 4)
            file.write(np.float32(number + 1).tobytes())
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y0"])]
    nodes += [
        helper.make_node("MatMul", [f"y{number}", f"w{number}"], [f"y{number + 1}"])
        for number in range(products)
    ]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [len(_IDS)])],
        [helper.make_tensor_value_info(f"y{products}", TensorProto.FLOAT, [len(_IDS), _WIDTH])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def measure(model: Path, rounds: int) -> None:
    """Print a line for each contender."""
    figures: dict[str, list[list[float]]] = {name: [] for name in _CONTENDERS}
    for _ in range(rounds):
        for name, runs in figures.items():
            runs.append(_in_child(name, model))
    medians = {
        name: [statistics.median(values) for values in zip(*runs, strict=True)]
        for name, runs in figures.items()
    }
    for name, (seconds, private, resident) in medians.items():
        peer = medians.get(_CONTENDERS[name][1], [seconds, private, resident])
        print(
            f"{name:24} {seconds:6.2f} s ({seconds / peer[0]:.2f}), private {private / 1e6:.0f} MB"
            f" ({private / peer[1]:.2f}), resident {resident / 1e6:.0f} MB"
            f" ({resident / peer[2]:.2f})",
            flush=True,
        )


def _in_child(name: str, model: Path) -> list[float]:
    words = [sys.executable, "-m", "benchmarks.large_models", "--child", name, str(model)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def _measure_here(name: str, model: Path) -> None:
    """Print seconds, peak private bytes and peak bytes of this process, which has to be new."""
    import_module(_CONTENDERS[name][0])
    watch = _PrivateMemory()
    before = watch.most_nbytes, _status("VmHWM")
    start = time.perf_counter()
    run = _open(name, model)
    run()
    seconds = time.perf_counter() - start
    watch.stop()
    print(json.dumps([seconds, watch.most_nbytes - before[0], _status("VmHWM") - before[1]]))


def _open(name: str, model: Path) -> Callable[[], Any]:
    if name == "onnxruntime":
        onnxruntime = load_onnxruntime()
        theirs = onnxruntime.InferenceSession(str(model), providers=[CPU_EP])
        return lambda: theirs.run(None, {"ids": _IDS})
    if name == "OpenVINO":
        precision = {"INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(str(model), "CPU", precision)
        return lambda: compiled({"ids": _IDS})
    from ortpkg.runtime.session.inference_session import InferenceSession  # of the bridge alone

    backend = _CONTENDERS[name][1].lower()
    provider = CPU_EP if backend == "onnxruntime" else OPENVINO_EP
    session = InferenceSession(model, providers=[provider], backend=backend)
    return lambda: session.run(None, {"ids": _IDS})


class _PrivateMemory:
    """Thread that samples the private memory of this process every few milliseconds."""

    def __init__(self) -> None:
        self.most_nbytes = _status("RssAnon")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample and end the thread."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            is_ended = self._ended.wait(0.002)
            self.most_nbytes = max(self.most_nbytes, _status("RssAnon"))
            if is_ended:
                return


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"this system does not tell {field}")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=float, default=2.3)
    parser.add_argument("--products", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        _measure_here(arguments.child[0], Path(arguments.child[1]))
        return
    for products in arguments.products:
        print(f"{arguments.gib:g} GiB of a table, products: {products}", flush=True)
        with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
            nbytes = int(arguments.gib * (1 << 30))
            model = save_model(Path(folder), table_nbytes=nbytes, products=products)
            measure(model, arguments.rounds)


if __name__ == "__main__":
    main()
