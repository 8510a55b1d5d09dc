"""What a context of PrepackExecutionProvider gains and costs beside the plain engine.

    python -m benchmarks.prepack_context [--budget SECONDS] [MODEL.onnx ...]

For each model: time of one run, and of creating a session, from the context as multiples of the
    plain model's. Without
arguments: the models of the sample packages. Inputs are zeros of integers and random floats,
unknown dimensions 1, unless a file of that name with the suffix .npz lies beside the model. Outputs
are compared first. Goals: a run within 1.05 of the plain engine's, or 30 µs for models below 1 ms,
and a faster start.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import ortpkg
from benchmarks.paired import Timing, time_in_turns
from ortpkg.ep_names import PREPACK_EP

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_MODELS = sorted((ROOT / "sample_packages").glob("*.ortpackage/models/**/*.onnx"))
_DTYPES = {
    "float": np.float32,
    "float16": np.float16,
    "int64": np.int64,
    "int32": np.int32,
    "uint8": np.uint8,
}
#: A younger file is hashed at every start.
_SETTLING_S = 2.5


def feeds_of(path: Path, session: ortpkg.InferenceSession) -> dict[str, Any]:
    """What the model is run on."""
    stored = path.with_suffix(".npz")
    if stored.exists():
        with np.load(stored, allow_pickle=False) as arrays:
            return {argument.name: arrays[argument.name] for argument in session.get_inputs()}
    generator = np.random.default_rng(0)
    feeds = {}
    for argument in session.get_inputs():
        dtype = np.dtype(_DTYPES[argument.type.removeprefix("tensor(").removesuffix(")")])
        shape = [size if isinstance(size, int) else 1 for size in argument.shape]
        is_whole = dtype.kind in "iu"
        feeds[argument.name] = (
            np.zeros(shape, dtype) if is_whole else generator.random(shape).astype(dtype)
        )
    return feeds


def make_context(path: Path, context: Path) -> None:
    """Compiles a model into a context model."""
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(context))
    ortpkg.InferenceSession(path, options, providers=[PREPACK_EP]).close()


def compare(path: Path, budget_s: float) -> None:
    """Prints one line for a model. AssertionError where outputs differ."""
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
        os.environ["ORTPKG_CACHE_DIR"] = str(Path(folder) / "cache")
        context = Path(folder) / "model_ctx.onnx"
        make_context(path, context)
        time.sleep(_SETTLING_S)
        plain = ortpkg.InferenceSession(path, providers=["cpu"])
        compiled = ortpkg.InferenceSession(context, providers=[PREPACK_EP])
        feeds = feeds_of(path, plain)
        for mine, theirs in zip(compiled.run(None, feeds), plain.run(None, feeds), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        runs = time_in_turns(
            {"plain": lambda: plain.run(None, feeds), "context": lambda: compiled.run(None, feeds)},
            baseline="plain",
            budget_s=budget_s,
        )
        starts = time_in_turns(
            {
                "plain": lambda: ortpkg.InferenceSession(path, providers=["cpu"]).close(),
                "context": lambda: ortpkg.InferenceSession(context, providers=[PREPACK_EP]).close(),
            },
            baseline="plain",
            budget_s=budget_s,
        )
    print(f"{path.parent.name}/{path.stem}: run {_text(runs)}; start {_text(starts)}", flush=True)


def _text(timings: dict[str, Timing]) -> str:
    plain, context = timings["plain"], timings["context"]
    return (
        f"{1e3 * context.median_s:.3f} ms, plain {1e3 * plain.median_s:.3f} ms, "
        f"ratio {context.ratio:.3f} ({context.ratio_low:.3f} to {context.ratio_high:.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, default=DEFAULT_MODELS)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each comparison")
    arguments = parser.parse_args()
    for path in arguments.models:
        compare(path, arguments.budget)


if __name__ == "__main__":
    main()
