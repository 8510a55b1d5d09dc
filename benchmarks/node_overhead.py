"""What the executor takes per node besides its kernel: a thousand additions of one element.

    python -m benchmarks.node_overhead [NODES]

The kernel's own time (numpy adds into a given array) is measured apart and subtracted. The shortest
of many runs, since a busy machine only ever adds time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

import ortpkg

_RUNS = 200


def chain(nodes: int) -> bytes:
    """x + 1 + 1 …, ``nodes`` times, which no transformer may fold: the addend is an input."""
    names = ["x", *(f"h{number}" for number in range(nodes - 1)), "y"]
    graph = helper.make_graph(
        [
            helper.make_node("Add", [names[number], "one"], [names[number + 1]])
            for number in range(nodes)
        ],
        "chain",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "one")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def shortest(run: Callable[[], object], runs: int = _RUNS) -> float:
    """Seconds of the shortest of ``runs`` runs."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def node_overhead_s(nodes: int) -> tuple[float, float]:
    """Seconds per node besides numpy's addition, and seconds of that addition."""
    feeds = {"x": np.zeros(1, np.float32), "one": np.ones(1, np.float32)}
    out = np.empty(1, np.float32)

    def additions() -> None:
        for _ in range(nodes):
            np.add(feeds["x"], feeds["one"], out=out)

    options = ortpkg.SessionOptions()
    options.intra_op_num_threads = 1
    with ortpkg.InferenceSession(chain(nodes), options, providers=["cpu"]) as session:
        session.run(None, feeds)
        whole = shortest(lambda: session.run(None, feeds))
    addition = shortest(additions)
    return (whole - addition) / nodes, addition / nodes


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the executor's time per node.")
    parser.add_argument("nodes", nargs="?", type=int, default=1000)
    overhead_s, addition_s = node_overhead_s(parser.parse_args().nodes)
    print(
        f"overhead {1e6 * overhead_s:.2f} µs per node, beside {1e6 * addition_s:.2f} µs of numpy's"
        " addition"
    )


if __name__ == "__main__":
    main()
