"""Attacks ortpkg with seeds in a process of its own: ``python -m tests.fuzz.child KIND OP UNTIL
LEAST``.

``KIND`` is one of :data:`KINDS`; ``OP`` may be empty, for any. The seeds come on standard input;
after the first ``LEAST`` none is begun when it is later than ``UNTIL``, on ``time.time``'s clock.

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
from ortpkg.shapes.inference import STRICT_VARIABLE
from tests.fuzz.microsoft_nodes import model_of_microsoft
from tests.fuzz.mutants import model_of_sizes, mutated_model
from tests.fuzz.packages import attack_document, attack_fault
from tests.fuzz.random_models import random_feeds, random_model

#: A case that takes longer hangs: a run may take TIMEOUT_S, and stops between nodes.
HANG_S = float(os.environ.get("ORTPKG_FUZZ_HANG_S", "20"))
TIMEOUT_S = 2.0
MEMORY_LIMIT_NBYTES = 64 << 20
#: What the process may grow by in one case.
_MOST_GROWTH_KIB = (int(1.2 * MEMORY_LIMIT_NBYTES) + 100_000_000) >> 10
#: Of this thread's time: making a session, or a run, may not take longer, however busy the machine
#: is.
_MOST_STEP_S = 2 * TIMEOUT_S
#: Of the clock on the wall, which others' work on the machine counts towards, and sleep: a run in
#: the background gives a longer ORTPKG_FUZZ_HANG_S, and then only this thread's time counts.
_MOST_WALL_S = HANG_S / 2
#: What is attacked: random models, valid ones with changes, operators with hostile sizes, those of
#: com.microsoft, documents of packages, and packages on a system that fails.
KINDS = ("models", "mutants", "shapes", "microsoft", "documents", "faults")


def main(arguments: list[str]) -> int:
    kind, op_type, until_s, least = arguments
    seeds = [int(line) for line in sys.stdin]
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.getLogger("ortpkg").addHandler(logging.NullHandler())
    os.environ[STRICT_VARIABLE] = "1"
    _limit_address_space()
    for number, seed in enumerate(seeds):
        if number >= int(least) and time.time() > float(until_s):
            break
        print(f"seed {seed}", flush=True)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        before_kib = _peak_kib()
        if str(seed) == os.environ.get("ORTPKG_FUZZ_CRASH_AT"):
            os.abort()  # for the driver's own test
        if str(seed) == os.environ.get("ORTPKG_FUZZ_SLEEP_AT"):
            time.sleep(10 * HANG_S)
        problem = attack(seed, op_type, kind)
        grown_kib = _peak_kib() - before_kib
        if problem is None and grown_kib > _MOST_GROWTH_KIB:
            problem = f"memory: grew by {grown_kib >> 10} MiB"
        if problem is not None:
            print("finding " + json.dumps({"seed": seed, "problem": problem}), flush=True)
    faulthandler.cancel_dump_traceback_later()
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
            started = _Clock()
            (attack_document if kind == "documents" else attack_fault)(seed)
            return started.if_late("reading a package")
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
        return {
            "mutants": mutated_model,
            "shapes": model_of_sizes,
            "microsoft": model_of_microsoft,
        }[kind](seed)
    except (TypeError, ValueError, OverflowError) as error:
        raise AssertionError(f"the fuzzer itself failed at seed {seed}") from error


def attack_model(model: bytes, seed: int) -> str | None:
    """Makes a session of a model and runs it.

    What is wrong with how long that takes, None where nothing is.

    Errors pass. ``seed`` chooses how the session is made, and what it is fed.
    """
    options = SessionOptions(memory_limit_nbytes=MEMORY_LIMIT_NBYTES, timeout_s=TIMEOUT_S)
    options.graph_optimization_level = (
        GraphOptimizationLevel.ORT_ENABLE_ALL
        if seed % 3
        else GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    if seed % 7 == 0:
        options.execution_mode = ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
    late = []
    started = _Clock()
    try:
        session = InferenceSession(model, options, ["cpu"])
    finally:
        late.append(started.if_late("making the session"))
    with session:
        feeds = random_feeds(seed, [_input_of(declared) for declared in session.get_inputs()])
        for declared in session.get_inputs():
            if isinstance(declared.value_type, SequenceType):
                feeds[declared.name] = [feeds[declared.name]]
        for _ in range(3):
            started = _Clock()
            try:
                session.run(None, feeds)
            finally:
                late.append(started.if_late("a run"))
    return next(filter(None, late), None)


class _Clock:
    """How long something takes, of this thread and on the wall; it begins where this is made."""

    def __init__(self) -> None:
        self._began_s = time.thread_time()
        self._began_wall_s = time.monotonic()

    def if_late(self, what: str) -> str | None:
        """A finding where it took too long.

        Raised where an error is under way, which would hide it.
        """
        took_s, wall_s = time.thread_time() - self._began_s, time.monotonic() - self._began_wall_s
        if took_s <= _MOST_STEP_S and wall_s <= _MOST_WALL_S:
            return None
        text = (
            f"{what} took {took_s:.1f} s, {wall_s:.1f} s on the wall, with a limit of {TIMEOUT_S} s"
        )
        if sys.exc_info()[0] is not None:
            raise RuntimeError(text)
        return text


def _input_of(declared: Any) -> tuple[str, Any, Any]:
    found = declared.value_type
    while not isinstance(found, TensorType) and hasattr(found, "element"):
        found = found.element
    if not isinstance(found, TensorType) or found.element_type is ElementType.UNDEFINED:
        return declared.name, np.dtype(np.float32), None
    return declared.name, numpy_dtype(found.element_type), found.shape


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
