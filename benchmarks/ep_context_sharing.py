"""What N context models that share weights cost in files and memory, beside N that do not.

    python -m benchmarks.ep_context_sharing [--models 4] [--megabytes 64]

N models with the same weights (as prefill and decode have them) are compiled by
LLVMExecutionProvider as a session group and one by one. Then a child process loads and runs all
of them, and tells by how much its resident memory grew (Linux: proportional set size, so that a
page counts once however often it is mapped). Goal: N shared models cost one set of weights and 10
%.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

import ortpkg

_GROUP_ENTRY = "ep.share_ep_contexts"
_WIDTH = 2048
_MATRIX_NBYTES = _WIDTH * _WIDTH * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        _load_and_tell(arguments.child)
        return
    matrices = max(1, (arguments.megabytes << 20) // _MATRIX_NBYTES)
    with tempfile.TemporaryDirectory() as folder:
        sources = _make_models(Path(folder), arguments.models, matrices)
        one = matrices * _MATRIX_NBYTES
        print(f"{arguments.models} models with the same {one / 1e6:.0f} MB of weights")
        for name, shares in (("one by one", False), ("as a group", True)):
            contexts = _compile(sources, Path(folder) / name, shares=shares)
            files = sum(path.stat().st_size for path in contexts[0].parent.iterdir())
            grown = _grown_nbytes(contexts, shares=shares)
            print(
                f"{name}: files {files / 1e6:.0f} MB ({files / one:.2f} sets of weights), "
                f"memory {grown / 1e6:.0f} MB ({grown / one:.2f})"
            )


def _make_models(folder: Path, count: int, matrices: int) -> list[Path]:
    rng = np.random.default_rng(0)
    weights = [rng.random((_WIDTH, _WIDTH), np.float32) / _WIDTH for _ in range(matrices)]
    found = []
    for number in range(count):
        steps = "  ".join(f"h{i + 1} = MatMul(h{i}, w{i})" for i in range(matrices))
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
        m{number} (float[1, {_WIDTH}] x) => (float[1, {_WIDTH}] y)
        {{ h0 = {"Neg" if number % 2 else "Abs"}(x)  {steps}  y = Identity(h{matrices}) }}"""
        proto = onnx.parser.parse_model(text)
        proto.graph.initializer.extend(
            numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)
        )
        found.append(folder / f"m{number}.onnx")
        onnx.save(proto, found[-1])
    return found


def _compile(sources: list[Path], folder: Path, *, shares: bool) -> list[Path]:
    folder.mkdir()
    made = []
    for number, source in enumerate(sources):
        made.append(folder / f"{source.stem}_ctx.onnx")
        options = ortpkg.SessionOptions()
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", str(made[-1]))
        if shares:
            options.add_session_config_entry(_GROUP_ENTRY, "1")
            is_last = number == len(sources) - 1
            options.add_session_config_entry("ep.stop_share_ep_contexts", "1" if is_last else "0")
        ortpkg.InferenceSession(source, options, providers=["llvm"]).close()
    return made


def _grown_nbytes(contexts: list[Path], *, shares: bool) -> int:
    words = [
        sys.executable,
        "-m",
        "benchmarks.ep_context_sharing",
        "--child",
        "1" if shares else "0",
    ]
    done = subprocess.run([*words, *map(str, contexts)], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["grown_nbytes"])


def _load_and_tell(words: list[str]) -> None:
    shares, *contexts = words
    x = np.ones((1, _WIDTH), np.float32)
    warm = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[1, 4] x) => (float[1, 4] y) { y ='
        " Exp(x) }"
    )
    ortpkg.InferenceSession(warm.SerializeToString(), providers=["llvm"]).run(None, {"x": x[:, :4]})
    np.matmul(np.ones((512, 512), np.float32), np.ones((512, 512), np.float32))
    before = _proportional_nbytes()
    sessions = []
    for context in contexts:
        options = ortpkg.SessionOptions()
        options.add_session_config_entry(_GROUP_ENTRY, shares)
        sessions.append(ortpkg.InferenceSession(context, options, providers=["llvm"]))
        sessions[-1].run(None, {"x": x})
    print(json.dumps({"grown_nbytes": _proportional_nbytes() - before}))


def _proportional_nbytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the system tells no proportional set size")


if __name__ == "__main__":
    main()
