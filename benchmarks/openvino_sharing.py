"""What N OpenVINO contexts that share weights cost, beside N that do not.

    python -m benchmarks.openvino_sharing [--models 2 4] [--megabytes 64] [MODEL.onnx ...]

N models with the same weights (as prefill and decode have them), or those that are named, are
compiled one by one and as a session group. Then child processes load and run all of them, and tell
by how much their resident memory grew (Linux), and what loads and runs took, digests having been
compared before. Counted is what is anonymous, and what is resident of the contexts' files, each
page once however often it is mapped. The pages of libraries are not: they are there once for any
number of models, and their proportional share, as the system tells it, grows by tens of megabytes
when another process that had them mapped ends meanwhile. Goal: N shared models cost one set of
weights and 10 %.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

import ortpkg

_WIDTH = 2048
_MATRIX_NBYTES = _WIDTH * _WIDTH * 4
_RUNS = 25
_MEASUREMENTS = 3
_DIMENSION = 64
_ENTRY = "ep.share_ep_contexts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "sources",
        nargs="*",
        type=Path,
        help="models that have weights in common; default: made ones",
    )
    parser.add_argument("--models", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _load_and_tell(arguments.sources)
        return
    for count in [len(arguments.sources)] if arguments.sources else arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            sources = arguments.sources or _make_models(Path(folder), count, arguments.megabytes)
            one = max(_weights_nbytes(source) for source in sources)
            print(f"{count} models with the same {one / 1e6:.0f} MB of weights")
            made = {
                name: _compile(sources, Path(folder) / name, shares=shares)
                for name, shares in (("one by one", False), ("as a group", True))
            }
            for name, contexts in made.items():
                _tell(name, contexts, one)


def _tell(name: str, contexts: list[Path], one: int) -> None:
    files = sum(path.stat().st_size for path in contexts[0].parent.iterdir())
    # the first load on a machine happens in a child process of its own, and checks digests
    _measure(contexts)
    time.sleep(2.1)  # then that is remembered, of files that have settled
    _measure(contexts)
    several = [_measure(contexts) for _ in range(_MEASUREMENTS)]
    told = sorted(several, key=lambda each: each["grown_nbytes"])[_MEASUREMENTS // 2]
    ratios = sorted(each["grown_nbytes"] / one for each in several)
    runs = ", ".join(f"{1e3 * each:.2f}" for each in told["run_s"])
    print(
        f"  {name}: files {files / 1e6:.0f} MB ({files / one:.2f} sets of weights), memory"
        f" {told['grown_nbytes'] / 1e6:.0f} MB ({ratios[0]:.2f} to {ratios[-1]:.2f}), of it"
        f" anonymous {told['anonymous_nbytes'] / 1e6:.0f} MB; all loaded in {told['load_s']:.2f} s;"
        f" runs {runs} ms"
    )


def _make_models(folder: Path, count: int, megabytes: int) -> list[Path]:
    matrices = max(1, (megabytes << 20) // _MATRIX_NBYTES)
    rng = np.random.default_rng(0)
    weights = [rng.random((_WIDTH, _WIDTH), np.float32) / _WIDTH for _ in range(matrices)]
    found = []
    for number in range(count):
        rows = 1 if number % 2 else 16  # decode, prefill
        steps = "  ".join(f"h{i + 1} = MatMul(h{i}, w{i})" for i in range(matrices))
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
        m{number} (float[{rows}, {_WIDTH}] x) => (float[{rows}, {_WIDTH}] y)
        {{ h0 = {"Neg" if number % 2 else "Abs"}(x)  {steps}  y = Identity(h{matrices}) }}"""
        proto = onnx.parser.parse_model(text)
        proto.graph.initializer.extend(
            numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)
        )
        found.append(folder / f"m{number}.onnx")
        onnx.save(proto, found[-1])
    return found


def _weights_nbytes(source: Path) -> int:
    tensors = onnx.load(source, load_external_data=False).graph.initializer
    return sum(
        math.prod(each.dims) * helper.tensor_dtype_to_np_dtype(each.data_type).itemsize
        for each in tensors
    )


def _compile(sources: list[Path], folder: Path, *, shares: bool) -> list[Path]:
    folder.mkdir()
    made = []
    for number, source in enumerate(sources):
        made.append(folder / f"{source.stem}_ctx.onnx")
        options = ortpkg.SessionOptions()
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", str(made[-1]))
        if shares:
            is_last = number == len(sources) - 1
            options.add_session_config_entry(_ENTRY, "1")
            options.add_session_config_entry("ep.stop_share_ep_contexts", "1" if is_last else "0")
        ortpkg.InferenceSession(source, options, providers=["openvino"]).close()
    return made


def _measure(contexts: list[Path]) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.openvino_sharing", "--child", *map(str, contexts)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _load_and_tell(contexts: list[Path]) -> None:
    warm = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[1, 4] x) => (float[1, 4] y) { y ='
        " Exp(x) }"
    )
    ortpkg.InferenceSession(warm.SerializeToString(), providers=["openvino"]).run(
        None, {"x": np.ones((1, 4), "f")}
    )
    folder = contexts[0].parent
    before = _memory(folder)
    start = time.perf_counter()
    options = ortpkg.SessionOptions()
    options.add_session_config_entry(_ENTRY, "1")
    sessions = [
        ortpkg.InferenceSession(context, options, providers=["openvino"]) for context in contexts
    ]
    load_s = time.perf_counter() - start
    run_s = []
    for session in sessions:
        feeds = _feeds(session)
        session.run(None, feeds)
        times = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - start)
        run_s.append(statistics.median(times))
    after = _memory(folder)
    told = {
        "grown_nbytes": sum(after.values()) - sum(before.values()),
        "anonymous_nbytes": after["anonymous"] - before["anonymous"],
        "load_s": load_s,
        "run_s": run_s,
    }
    print(json.dumps(told))


def _feeds(session: Any) -> dict[str, Any]:
    feeds = {}
    for each in session.get_inputs():
        shape = [
            size if isinstance(size, int) else (1 if place == 0 else _DIMENSION)
            for place, size in enumerate(each.shape)
        ]
        feeds[each.name] = np.ones(shape, np.float32 if "float" in each.type else np.int64)
    return feeds


def _memory(folder: Path) -> dict[str, int]:
    """Bytes: anonymous ones wherever mapped, and resident ones of files in ``folder``."""
    found = {"anonymous": 0, "files": 0}
    is_own = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        if "-" in name.split(" ", 1)[0]:
            is_own = str(folder.resolve()) in line
        elif name == "Anonymous":
            found["anonymous"] += int(rest.split()[0]) * 1024
        elif name == "Pss" and is_own:
            found["files"] += int(rest.split()[0]) * 1024
    return found


if __name__ == "__main__":
    main()
