"""Attacks ortpkg with seeds in a process of its own: ``python -m tests.fuzz.child KIND OP``, seeds on standard input.

``KIND`` is one of :data:`KINDS`; ``OP`` may be empty, for any.

Prints one line of JSON per finding, and the seed it is at, flushed, so that whoever
started it knows what killed it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import sys
import time
import traceback
import warnings
from typing import Any

import numpy as np

from ortpkg.errors import OrtpkgError
from ortpkg.graph.types import ElementType, SequenceType, TensorType, numpy_dtype
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions
from tests.fuzz.mutants import model_of_sizes, mutated_model
from tests.fuzz.packages import attack_document, attack_fault, remove_packages
from tests.fuzz.random_models import random_feeds, random_model

#: A case that takes longer hangs: a run may take TIMEOUT_S, and stops between nodes.
HANG_S = 20
TIMEOUT_S = 2.0
MEMORY_LIMIT_NBYTES = 64 << 20
#: What the process may grow by in one case.
_MOST_GROWTH_KIB = (int(1.2 * MEMORY_LIMIT_NBYTES) + 100_000_000) >> 10
#: Of this thread's time: making a session, or a run, may not take longer, however busy the machine is.
_MOST_STEP_S = 2 * TIMEOUT_S
#: What is attacked: random models, valid ones with changes, operators with hostile sizes, documents of packages, and
#: packages on a system that fails.
KINDS = ("models", "mutants", "shapes", "documents", "faults")


def main(arguments: list[str]) -> int:
    kind, op_type = arguments
    seeds = [int(line) for line in sys.stdin]
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _limit_address_space()
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        before_kib = _peak_kib()
        if str(seed) == os.environ.get("ORTPKG_FUZZ_CRASH_AT"):
            os.abort()  # for the driver's own test
        problem = attack(seed, op_type, kind)
        grown_kib = _peak_kib() - before_kib
        if problem is None and grown_kib > _MOST_GROWTH_KIB:
            problem = f"memory: grew by {grown_kib >> 10} MiB"
        if problem is not None:
            print("finding " + json.dumps({"seed": seed, "problem": problem}), flush=True)
    faulthandler.cancel_dump_traceback_later()
    remove_packages()
    print("done", flush=True)
    return 0


if sys.platform == "win32":

    def _limit_address_space() -> None:
        """Windows has no such limit."""

    def _peak_kib() -> int:
        return 0

else:
    import resource

    def _limit_address_space() -> None:
        """What takes more than this ends as a MemoryError here, not as a machine without memory."""
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

    def _peak_kib() -> int:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak >> 10 if sys.platform == "darwin" else peak


def attack(seed: int, op_type: str = "", kind: str = "models") -> str | None:
    """What is wrong with how the case of that seed ends; None where nothing is."""
    try:
        if kind in ("documents", "faults"):
            started_s = time.thread_time()
            (attack_document if kind == "documents" else attack_fault)(seed)
            return _if_late("reading a package", started_s)
        return attack_model(_model_of(seed, op_type, kind), seed)
    except OrtpkgError as error:
        text = str(error)
        return None if text.isprintable() else f"unprintable message: {text!a}"
    except Exception:  # noqa: BLE001 - that is what is looked for
        return "untyped: " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])


def _model_of(seed: int, op_type: str, kind: str) -> bytes:
    try:
        if kind == "models":
            return bytes(random_model(seed, op_type).SerializeToString())
        return mutated_model(seed) if kind == "mutants" else model_of_sizes(seed)
    except (TypeError, ValueError, OverflowError) as error:
        raise AssertionError(f"the fuzzer itself failed at seed {seed}") from error


def attack_model(model: bytes, seed: int) -> str | None:
    """Makes a session of a model and runs it; what is wrong with how long that takes, None where nothing is.

    Errors pass. ``seed`` chooses how the session is made, and what it is fed.
    """
    options = SessionOptions(memory_limit_nbytes=MEMORY_LIMIT_NBYTES, timeout_s=TIMEOUT_S)
    options.graph_optimization_level = (
        GraphOptimizationLevel.ORT_ENABLE_ALL if seed % 3 else GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    if seed % 7 == 0:
        options.execution_mode = ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    late = []
    started_s = time.thread_time()
    try:
        session = InferenceSession(model, options, ["cpu"])
    finally:
        late.append(_if_late("making the session", started_s))
    with session:
        feeds = random_feeds(seed, [_input_of(declared) for declared in session.get_inputs()])
        for declared in session.get_inputs():
            if isinstance(declared.value_type, SequenceType):
                feeds[declared.name] = [feeds[declared.name]]
        for _ in range(3):
            started_s = time.thread_time()
            try:
                session.run(None, feeds)
            finally:
                late.append(_if_late("a run", started_s))
    return next(filter(None, late), None)


def _if_late(what: str, started_s: float) -> str | None:
    """A finding where what began then, on this thread's clock, took too long."""
    took_s = time.thread_time() - started_s
    if took_s <= _MOST_STEP_S:
        return None
    if sys.exc_info()[0] is not None:
        raise RuntimeError(f"{what} took {took_s:.1f} s, with a limit of {TIMEOUT_S} s")
    return f"{what} took {took_s:.1f} s, with a limit of {TIMEOUT_S} s"


def _input_of(declared: Any) -> tuple[str, Any, Any]:
    found = declared.value_type
    while not isinstance(found, TensorType) and hasattr(found, "element"):
        found = found.element
    if not isinstance(found, TensorType) or found.element_type is ElementType.UNDEFINED:
        return declared.name, np.dtype(np.float32), None
    return declared.name, numpy_dtype(found.element_type), found.shape


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
