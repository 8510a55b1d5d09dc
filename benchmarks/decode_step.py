"""A decode step at new and known cache lengths, here and on onnxruntime.

    python -m benchmarks.decode_step [--layers 16] [--hidden 256] [--from 128] [--steps 96]

Two decoders of the benchmark's own making, with random weights: one of ``com.microsoft``'s
GroupQueryAttention, one of plain operators whose caches grow by Concat. In each round either engine
makes a step at a length that it has not seen, and one at the length in the middle, which it sees in
every round; the caches of both are new. Then the first of them with caches of ``--places`` places
that are bound both as past and as present, against the same caches fed, and copied. All on one
thread, in the processor time of that thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import numpy_helper

import ortpkg

_HEADS, _SHARED, _VOCABULARY = 8, 2, 512

_GROUPED = """
    packed_{n} = MatMul(normal_{n}, qkv_{n})
    mixed_{n}, present_key_{n}, present_value_{n} = com.microsoft.GroupQueryAttention
        <num_heads = {heads}, kv_num_heads = {shared}>
        (packed_{n}, , , past_key_{n}, past_value_{n}, seqlens, total)
"""
_PLAIN = """
    packed_{n} = MatMul(normal_{n}, qkv_{n})
    queries_{n}, keys_{n}, values_{n} = Split <axis = 2> (packed_{n}, parts)
    queries4_{n} = Reshape(queries_{n}, by_head)
    keys4_{n} = Reshape(keys_{n}, by_head)
    values4_{n} = Reshape(values_{n}, by_head)
    q_{n} = Transpose <perm = [0, 2, 1, 3]> (queries4_{n})
    k_{n} = Transpose <perm = [0, 2, 1, 3]> (keys4_{n})
    v_{n} = Transpose <perm = [0, 2, 1, 3]> (values4_{n})
    present_key_{n} = Concat <axis = 2> (past_key_{n}, k_{n})
    present_value_{n} = Concat <axis = 2> (past_value_{n}, v_{n})
    turned_{n} = Transpose <perm = [0, 1, 3, 2]> (present_key_{n})
    products_{n} = MatMul(q_{n}, turned_{n})
    scaled_{n} = Mul(products_{n}, scale)
    weights_{n} = Softmax <axis = -1> (scaled_{n})
    heads_{n} = MatMul(weights_{n}, present_value_{n})
    apart_{n} = Transpose <perm = [0, 2, 1, 3]> (heads_{n})
    mixed_{n} = Reshape(apart_{n}, together)
"""
_REST = """
    attended_{n} = MatMul(mixed_{n}, back_{n})
    x_{n}b = Add(x_{n}, attended_{n})
    normal_{n}b = LayerNormalization(x_{n}b, one)
    gate_{n} = MatMul(normal_{n}b, gates_{n})
    sigmoid_{n} = Sigmoid(gate_{n})
    silu_{n} = Mul(gate_{n}, sigmoid_{n})
    up_{n} = MatMul(normal_{n}b, ups_{n})
    passed_{n} = Mul(silu_{n}, up_{n})
    down_{n} = MatMul(passed_{n}, downs_{n})
    x_{m} = Add(x_{n}b, down_{n})
"""


def decoder(kind: str, layers: int, hidden: int) -> bytes:
    """A decoder of ``kind`` "gqa" or "concat": token ids and caches to the next token's odds."""
    size = hidden // _HEADS
    shared = _SHARED if kind == "gqa" else _HEADS
    cache = f"float[batch,{shared},{{0}},{size}]"
    names = [f"{part}_{n}" for n in range(layers) for part in ("key", "value")]
    inputs = ["int64[batch,length] ids", *(f"{cache.format('past')} past_{name}" for name in names)]
    if kind == "gqa":
        inputs += ["int32[batch] seqlens", "int32[1] total"]
    outputs = [
        "float[batch,length,vocabulary] scores",
        *(f"{cache.format('total')} present_{name}" for name in names),
    ]
    body = "    x_0 = Gather(embedding, ids)\n"
    for n in range(layers):
        body += f"    normal_{n} = LayerNormalization(x_{n}, one)\n"
        body += (_GROUPED if kind == "gqa" else _PLAIN).format(n=n, heads=_HEADS, shared=_SHARED)
        body += _REST.format(n=n, m=n + 1)
    body += f"    scores = MatMul(x_{layers}, head)\n"
    text = (
        '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
        f"decoder ({', '.join(inputs)}) => ({', '.join(outputs)}) {{\n{body}}}"
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name)
        for name, value in _weights(kind, layers, hidden).items()
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _weights(kind: str, layers: int, hidden: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    size = hidden // _HEADS

    def normal(*shape: int) -> Any:
        return (generator.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)

    width = 3 * hidden if kind == "concat" else hidden + 2 * _SHARED * size
    found = {"embedding": normal(_VOCABULARY, hidden), "head": normal(hidden, _VOCABULARY)}
    found["one"] = np.ones(hidden, np.float32)
    if kind == "concat":
        found |= {
            "scale": np.float32(size**-0.5).reshape(1),
            "parts": np.full(3, hidden),
            "by_head": np.array([0, 0, _HEADS, size]),
            "together": np.array([0, 0, hidden]),
        }
    for n in range(layers):
        found |= {f"qkv_{n}": normal(hidden, width), f"back_{n}": normal(hidden, hidden)}
        found |= {f"gates_{n}": normal(hidden, 2 * hidden), f"ups_{n}": normal(hidden, 2 * hidden)}
        found[f"downs_{n}"] = normal(2 * hidden, hidden)
    return found


def feeds_of(session: Any, past: int, hidden: int) -> dict[str, Any]:
    """One token behind caches of ``past`` places."""
    generator = np.random.default_rng(past)
    feeds: dict[str, Any] = {"ids": np.array([[past % _VOCABULARY]])}
    for argument in session.get_inputs():
        if argument.name.startswith("past_"):
            shape = (1, argument.shape[1], past, hidden // _HEADS)
            feeds[argument.name] = generator.standard_normal(shape).astype(np.float32)
        elif argument.name in ("seqlens", "total"):
            feeds[argument.name] = np.array([past + (argument.name == "total")], np.int32)
    return feeds


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a round's two steps."""

    new_s: float
    seen_s: float

    @property
    def ratio(self) -> float:
        return self.new_s / self.seen_s


def compare(
    kind: str, *, layers: int, hidden: int, first: int, steps: int
) -> dict[str, list[StepTimes]]:
    """The rounds of both engines; AssertionError where they disagree."""
    peer, ours = _sessions(decoder(kind, layers, hidden))
    feeds = feeds_of(peer, first - 1, hidden)
    for mine, theirs in zip(ours.run(None, feeds), peer.run(None, feeds), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=1e-3)
    seen = first + steps // 2
    found: dict[str, list[StepTimes]] = {}
    for name, session in (("onnxruntime", peer), ("ortpkg", ours)):
        for past in (*range(first - 4, first), seen, seen, seen):
            session.run(None, feeds_of(peer, past, hidden))
        found[name] = []
    for past in (length for length in range(first, first + steps) if length != seen):
        for name, session in (("onnxruntime", peer), ("ortpkg", ours)):
            new_s, seen_s = (
                _step_s(session, feeds_of(peer, length, hidden)) for length in (past, seen)
            )
            found[name].append(StepTimes(new_s, seen_s))
    return found


def _sessions(model: bytes) -> tuple[Any, Any]:
    """onnxruntime's and ours, each with one thread."""
    options, own_options = onnxruntime.SessionOptions(), ortpkg.SessionOptions()
    options.intra_op_num_threads = own_options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return peer, ortpkg.InferenceSession(model, own_options, providers=["CPUExecutionProvider"])


def compare_shared(
    *, layers: int, hidden: int, first: int, steps: int, places: int
) -> dict[str, list[float]]:
    """Seconds per step with caches of ``places`` places: bound as past and present, and fed."""
    peer, ours = _sessions(decoder("gqa", layers, hidden))
    bound = {
        "onnxruntime": _bound(onnxruntime, peer, places, hidden),
        "ortpkg": _bound(ortpkg, ours, places, hidden),
    }
    fed = feeds_of(peer, places, hidden)
    found: dict[str, list[float]] = {name: [] for name in (*bound, "ortpkg, fed")}
    for past in range(first, first + steps):
        step = {"ids": np.array([[past % _VOCABULARY]])}
        step |= {
            name: np.array([past + (name == "total")], np.int32) for name in ("seqlens", "total")
        }
        for name, (session, binding) in bound.items():
            for key, value in step.items():
                binding.bind_cpu_input(key, value)
            start = time.thread_time()
            session.run_with_iobinding(binding)
            found[name].append(time.thread_time() - start)
        start = time.thread_time()
        ours.run(None, fed | step)
        found["ortpkg, fed"].append(time.thread_time() - start)
    return found


def _bound(ort: Any, session: Any, places: int, hidden: int) -> tuple[Any, Any]:
    """The session, and a binding in which each cache is past and present."""
    binding = session.io_binding()
    for argument in session.get_inputs():
        if argument.name.startswith("past_"):
            shape = (1, argument.shape[1], places, hidden // _HEADS)
            cache = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
            binding.bind_ortvalue_input(argument.name, cache)
            binding.bind_ortvalue_output(argument.name.replace("past_", "present_"), cache)
    binding.bind_output("scores")
    return session, binding


def _step_s(session: Any, feeds: dict[str, Any]) -> float:
    start = time.thread_time()
    session.run(None, feeds)
    return time.thread_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Decode steps at new and at seen lengths, and on onnxruntime."
    )
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument(
        "--from", type=int, default=128, dest="first", help="length of the caches at the first step"
    )
    parser.add_argument("--steps", type=int, default=96)
    parser.add_argument("--places", type=int, default=2048, help="of the caches that are bound")
    parser.add_argument("--kind", choices=("gqa", "concat"), action="append")
    arguments = parser.parse_args()
    for kind in arguments.kind or ("gqa", "concat"):
        found = compare(
            kind,
            layers=arguments.layers,
            hidden=arguments.hidden,
            first=arguments.first,
            steps=arguments.steps,
        )
        print(f"{kind}: {arguments.layers} layers of {arguments.hidden}")
        for name, rounds in found.items():
            new, seen = [each.new_s for each in rounds], [each.seen_s for each in rounds]
            ratios = sorted(each.ratio for each in rounds)
            quarter = len(ratios) // 4
            print(
                f"  {name:12} new {1e3 * statistics.median(new):.2f} ms, seen"
                f" {1e3 * statistics.median(seen):.2f} ms; new / seen"
                f" {statistics.median(ratios):.2f} ({ratios[quarter]:.2f} to"
                f" {ratios[-1 - quarter]:.2f}), all rounds together {sum(new) / sum(seen):.2f}"
            )
        pairs = list(zip(found["ortpkg"], found["onnxruntime"], strict=True))
        new_ratio = statistics.median(mine.new_s / theirs.new_s for mine, theirs in pairs)
        seen_ratio = statistics.median(mine.seen_s / theirs.seen_s for mine, theirs in pairs)
        print(f"  ortpkg / onnxruntime: new {new_ratio:.2f}, seen {seen_ratio:.2f}")
    shared = compare_shared(
        layers=arguments.layers,
        hidden=arguments.hidden,
        first=arguments.first,
        steps=arguments.steps,
        places=arguments.places,
    )
    print(f"gqa with caches of {arguments.places} places, bound as past and as present:")
    for contender, times in shared.items():
        ratio = statistics.median(a / b for a, b in zip(times, shared["onnxruntime"], strict=True))
        print(
            f"  {contender:12} {1e3 * statistics.median(times):.2f} ms, {ratio:.2f} x onnxruntime"
        )


if __name__ == "__main__":
    main()
