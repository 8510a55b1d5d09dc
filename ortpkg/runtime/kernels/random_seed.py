"""Seed of a process for nodes that draw random numbers and have no ``seed`` of their own.

It is used like onnxruntime's ``set_seed``, by sessions made after it: each node then has its own
stream, from the seed and the node's index in the graph, that continues from run to run.
"""

from __future__ import annotations

import threading

import numpy as np

_lock = threading.Lock()
_seed: int | None = None


def set_random_seed(seed: int) -> None:
    """Set the seed for kernels made from now on."""
    global _seed  # noqa: PLW0603 - one seed per process is what the function promises
    with _lock:
        _seed = seed


def stream_of(node_index: int) -> np.random.Generator | None:
    """Return a stream for the node that any thread may draw from; None if no seed was set."""
    with _lock:
        return None if _seed is None else np.random.default_rng(abs(_seed + node_index))
