"""Measures one real model on one runtime of ours beside onnxruntime, in a process of its own.

``python -m tests.real.measure MODEL RUNTIME FOLDER`` prints one JSON object.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paired import time_in_turns
from ortpkg import InferenceSession, SessionOptions
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP
from tests.real.models import MINILM, MODELS, RealModel, classes

THREADS = 2
#: What a session is made on; None: it names no provider.
RUNTIMES: dict[str, list[str] | None] = {
    "numpy": [CPU_EP],
    "llvm": [LLVM_EP, CPU_EP],
    "default": None,
}
_BUDGET_S = 3.0
_SMALLEST_SCALE = 1e-3


def model_file(model: RealModel, folder: Path) -> Path:
    """The model's file; one that comes in parts, or is exported, lies in ``folder``."""
    paths = model.paths()
    if paths[0].suffix == ".safetensors":
        return folder / MINILM
    if len(paths) == 1:
        return paths[0]
    joined = folder / f"{model.packages[0]}.onnx"
    if not joined.exists():
        joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    return joined


def measure(model: RealModel, runtime: str, folder: Path) -> dict[str, Any]:
    path = model_file(model, folder)
    feeds = dict(model.feeds())
    theirs = _open_theirs(path)
    expected = theirs.run(None, feeds)
    options = SessionOptions()
    options.intra_op_num_threads = THREADS
    start = time.perf_counter()
    ours = InferenceSession(path, options, providers=RUNTIMES[runtime])
    opened_s = time.perf_counter() - start
    found = ours.run(None, feeds)
    timing = time_in_turns(
        {"ortpkg": lambda: ours.run(None, feeds), "onnxruntime": lambda: theirs.run(None, feeds)},
        baseline="onnxruntime",
        budget_s=_BUDGET_S,
        least_rounds=3,
        settle_s=0.1,
    )
    return {
        "error": _error(found, expected),
        "task": _is_task_right(model, path.parent, found, expected),
        "ratio": timing["ortpkg"].least_ratio,
        "open_s": opened_s,
        **_shares(ours),
    }


def _open_theirs(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _error(found: Sequence[Any], expected: Sequence[Any]) -> float | None:
    """The largest difference, as a share of the output's largest number; None: other shapes.

    A map on which nothing is detected has numbers that are rounding alone: its scale is a floor's.
    """
    errors = [0.0]
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return None
        if one.size:
            left, right = one.astype(np.float64), other.astype(np.float64)
            errors.append(
                float(np.abs(left - right).max() / max(np.abs(right).max(), _SMALLEST_SCALE))
            )
    return max(errors)


def _is_task_right(
    model: RealModel, folder: Path, found: Sequence[Any], expected: Sequence[Any]
) -> bool:
    if model.answer is not None:
        return model.answer(found, folder) == model.expected
    if model.length_tolerance:
        lengths = found[0].shape[-1], expected[0].shape[-1]
        is_sound = bool(np.isfinite(found[0]).all())
        return is_sound and abs(lengths[0] / lengths[1] - 1) <= model.length_tolerance
    pairs = zip(classes(found), classes(expected), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def _shares(session: InferenceSession) -> dict[str, Any]:
    """Share of nodes that leave the numpy engine, whose most are, and how many partitions."""
    partitions = session._state.partitions
    counts: dict[str, int] = {}
    for partition in partitions:
        counts[partition.provider] = counts.get(partition.provider, 0) + len(partition.node_names)
    nodes = max(sum(counts.values()), 1)
    return {
        "share": 1 - counts.get(CPU_EP, 0) / nodes,
        "provider": max(counts, key=lambda name: counts[name]),
        "partitions": sum(bool(partition.fused_node) for partition in partitions),
    }


def main(arguments: Sequence[str]) -> int:
    name, runtime, folder = arguments
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    (model,) = (model for model in MODELS if model.name == name)
    print(json.dumps(measure(model, runtime, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
