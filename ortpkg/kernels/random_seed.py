"""The seed of a process for nodes that draw random numbers and have no ``seed`` of their own.

As onnxruntime's ``set_seed``: it holds for sessions made after it; each node then has a stream of
its own, from the seed and the node's place in the graph, that goes on from run to run.
"""

from __future__ import annotations

import threading

import numpy as np

_lock = threading.Lock()
_seed: int | None = None


def set_random_seed(seed: int) -> None:
    """Sets the seed for kernels made from now on."""
    global _seed  # noqa: PLW0603 - one seed per process is what the function promises
    with _lock:
        _seed = seed


def stream_of(node_index: int) -> np.random.Generator | None:
    """A stream for the node, which may be drawn from in any thread; None where no seed was set."""
    with _lock:
        return None if _seed is None else np.random.default_rng(abs(_seed + node_index))
