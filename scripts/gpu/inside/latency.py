"""One model on one EP by ortpkg and by plain onnxruntime, in turns: latency, copies, differences.

latency MODEL INPUTS.npz EP BINDING(0|1)
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ortpkg
from ortpkg.runtime.providers.nvidia_libraries import prepare_nvidia_libraries

_WARM_UP, _ROUNDS = 8, 60


def _times(run: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Return the medians of two ways of the same run, measured in turns."""
    for _ in range(_WARM_UP):
        run(), other()
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for kept, call in zip(taken, (run, other), strict=True):
            start_s = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start_s)
    return statistics.median(taken[0]), statistics.median(taken[1])


def main(model: str, inputs: str, ep: str, with_binding: bool) -> dict[str, Any]:
    feed = dict(np.load(inputs))
    own = ortpkg.InferenceSession(model, providers=[ep], backend="onnxruntime")
    import onnxruntime

    prepare_nvidia_libraries(onnxruntime)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(model, options, providers=[ep], enable_fallback=0)
    placement = own.get_placement()
    entries = [
        {"ep": entry.ep_name, "nodes": entry.node_count, "fallback": entry.is_fallback}
        for entry in placement.entries
    ]
    difference = float(np.abs(own.run(None, feed)[0] - theirs.run(None, feed)[0]).max())
    how = "run"
    if with_binding:
        how, ours, others = _bound(own, theirs, onnxruntime, feed, ep)
    else:
        ours, others = (lambda: own.run(None, feed)), (lambda: theirs.run(None, feed))
    own_s, their_s = _times(ours, others)
    return {
        "ep": ep,
        "how": how,
        "placement": entries,
        "started": ep in theirs.get_providers(),
        "own_s": own_s,
        "onnxruntime_s": their_s,
        "ratio": own_s / their_s,
        "difference": difference,
    }


def _bound(
    own: Any, theirs: Any, onnxruntime: Any, feed: dict[str, Any], ep: str
) -> tuple[str, Callable[[], Any], Callable[[], Any]]:
    """Bind inputs and outputs of both, to the device where that is possible."""
    device = "cuda" if ep == "CUDAExecutionProvider" else "cpu"
    output = own.get_outputs()[0].name
    how = f"both bound to {device}"
    try:
        ours = _binding(own, ortpkg, feed, output, device)
        own.run_with_iobinding(ours)
    except Exception as error:  # noqa: BLE001 - the row says so
        how = f"ortpkg bound to cpu ({type(error).__name__}: {error}), onnxruntime to {device}"
        ours = _binding(own, ortpkg, feed, output, "cpu")
    others = _binding(theirs, onnxruntime, feed, output, device)
    own.run_with_iobinding(ours)
    theirs.run_with_iobinding(others)
    np.testing.assert_allclose(
        ours.copy_outputs_to_cpu()[0], others.copy_outputs_to_cpu()[0], rtol=1e-2, atol=1e-3
    )
    return (
        how,
        lambda: own.run_with_iobinding(ours),
        lambda: theirs.run_with_iobinding(others),
    )


def _binding(session: Any, module: Any, feed: dict[str, Any], output: str, device: str) -> Any:
    binding = session.io_binding()
    for name, array in feed.items():
        value = module.OrtValue.ortvalue_from_numpy(array, device, 0)
        binding.bind_ortvalue_input(name, value)
    binding.bind_output(output, device)
    return binding


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "1")))
