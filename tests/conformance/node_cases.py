"""The onnx package's node cases.

It computes them all, and what they must give, wherever one is wanted: a process that has them
writes them down, and the others read them.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from filelock import FileLock

_FOLDER = Path(__file__).resolve().parents[2] / "build" / "onnx-node-cases"


@cache
def node_cases() -> tuple[Any, ...]:
    """All of them, as the loader of onnx gives them; they are shared, so nobody may change them."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    # On all that they are computed by.
    versions = (onnx.__version__, np.__version__, ".".join(map(str, sys.version_info[:2])))
    file = _FOLDER / f"{'-'.join(versions)}.pickle"
    with FileLock(file.with_suffix(".lock")):
        if file.exists():
            return tuple(pickle.loads(file.read_bytes()))
        cases = _computed()
        made = file.with_suffix(f".{os.getpid()}")
        made.write_bytes(pickle.dumps(cases))
        made.replace(file)
    return cases


def _computed() -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators divide by zero on purpose
        from onnx.backend.test.loader import load_model_tests  # computes them

        return tuple(load_model_tests(kind="node"))
