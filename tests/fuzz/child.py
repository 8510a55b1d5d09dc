"""Attacks with seeds in its own process: ``python -m tests.fuzz.child KIND OP UNTIL LEAST``.

``KIND`` is one of :data:`tests.fuzz.kinds.KINDS`; ``OP`` may be empty, for any. The seeds come on standard input;
after the first ``LEAST`` none is begun when it is later than ``UNTIL``, on ``time.time``'s clock,
and none after SIGINT or SIGTERM.

Prints one line of JSON per finding, the seed it is at, and now and then the processor time it took
so far, flushed, so that whoever started it knows what killed it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import logging
import math
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ortpkg.errors import OrtpkgError
from ortpkg.graph.types import ElementType, SequenceType, TensorType, numpy_dtype
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions
from ortpkg.shapes.inference import STRICT_VARIABLE
from tests.fuzz.authoring import attack_authoring
from tests.fuzz.microsoft_nodes import model_of_microsoft
from tests.fuzz.mutants import model_of_sizes, mutated_model
from tests.fuzz.operators import Feeds, mutated_operator, operator_cases
from tests.fuzz.packages import attack_document, attack_fault, sample_packages
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
#: How late a hang may be noticed, so that not each case sets the alarm anew.
_ARMED_S = 0.25
#: So many cases from one line on processor time to the next.
_REPORTED_CASES = 100

#: What attacks packages, by kind.
_PACKAGES: dict[str, Callable[[int], None]] = {
    "documents": attack_document, "faults": attack_fault, "authoring": attack_authoring,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    kind, op_type, until_s, least = arguments
    seeds = [int(line) for line in sys.stdin]
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.getLogger("ortpkg").addHandler(logging.NullHandler())
    os.environ[STRICT_VARIABLE] = "1"
    _limit_address_space()
    _prepare(kind)
    stops: list[int] = []
    armed_s = -math.inf
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_of_signal, lambda number, _frame: stops.append(number))
    for number, seed in enumerate(seeds):
        if stops or (number >= int(least) and time.time() > float(until_s)):
            break
        if number % _REPORTED_CASES == 0:
            print(f"processor {time.process_time()}", flush=True)
        print(f"seed {seed}", flush=True)
        if time.monotonic() > armed_s + _ARMED_S:  # a thread each time
            faulthandler.dump_traceback_later(HANG_S + _ARMED_S, exit=True)
            armed_s = time.monotonic()
        problem = _attack_watched(seed, op_type, kind)
        if problem is not None:
            print("finding " + json.dumps({"seed": seed, "problem": problem}), flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"processor {time.process_time()}\ndone", flush=True)
    return 0


def _prepare(kind: str) -> None:
    """Makes what cases of that kind begin with, which counts towards none."""
    if kind == "operators":
        operator_cases()
    elif kind in _PACKAGES:
        sample_packages()
    # What is there stays for the life of the process: the collector need not go through it again.
    gc.collect()
    gc.freeze()


def _attack_watched(seed: int, op_type: str, kind: str) -> str | None:
    """What is wrong with the case of that seed, or with the memory that it took."""
    before_kib = _peak_kib(forget=True)
    if str(seed) == os.environ.get("ORTPKG_FUZZ_CRASH_AT"):
        os.abort()  # for the driver's own test
    if str(seed) == os.environ.get("ORTPKG_FUZZ_SLEEP_AT"):
        time.sleep(10 * HANG_S)
    if str(seed) == os.environ.get("ORTPKG_FUZZ_INTERRUPT_AT"):
        os.kill(os.getppid(), signal.SIGINT)
    for at in filter(None, os.environ.get("ORTPKG_FUZZ_FILL", "").split(",")):
        if at.startswith(f"{seed}="):
            bytearray(b"1") * (int(at.partition("=")[2]) << 20)
    problem = attack(seed, op_type, kind)
    grown_kib = _peak_kib() - before_kib
    if problem is None and grown_kib > _MOST_GROWTH_KIB:
        return f"memory: grew by {grown_kib >> 10} MiB"
    return problem


if sys.platform == "win32":

    def _limit_address_space() -> None:
        """Windows has no such limit."""

    def _peak_kib(*, forget: bool = False) -> int:
        return 0

else:
    import resource

    def _limit_address_space() -> None:
        """What takes more than this ends as a MemoryError here, not as a machine without memory."""
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

    def _peak_kib(*, forget: bool = False) -> int:
        """The most memory so far; ``forget`` begins anew (on Linux).

        So no case hides behind a larger one before it.
        """
        if sys.platform != "linux":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak >> 10 if sys.platform == "darwin" else peak
        forgetting, status = _memory_files()
        if forget:
            os.pwrite(forgetting, b"5", 0)
        # getrusage counts what the parent had when it started this process, too.
        return int(os.pread(status, 4096, 0).partition(b"VmHWM:")[2].split(maxsplit=1)[0])

    @cache
    def _memory_files() -> tuple[int, int]:
        """Open for as long as the process lives."""
        return os.open("/proc/self/clear_refs", os.O_WRONLY), os.open(
            "/proc/self/status", os.O_RDONLY
        )


def attack(seed: int, op_type: str = "", kind: str = "models") -> str | None:
    """What is wrong with how the case of that seed ends; None where nothing is."""
    try:
        if kind in _PACKAGES:
            started = _Clock()
            _PACKAGES[kind](seed)
            return started.if_late("a package")
        return attack_model(*_model_of(seed, op_type, kind), seed)
    except OrtpkgError as error:
        text = str(error)
        if not text.isprintable():
            return f"unprintable message: {text!a}"
        return (
            f"memory: taken before it was asked for: {text}" if _is_out_of_memory(error) else None
        )
    except Exception:  # noqa: BLE001 - that is what is looked for
        return "untyped: " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine said no, and not the limit: a larger machine would have said yes."""
    seen: list[BaseException] = []  # they may refer to each other
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return any(isinstance(each, MemoryError) for each in seen)


def _model_of(seed: int, op_type: str, kind: str) -> tuple[bytes, Feeds]:
    """The seed's model, and what it is fed, where the fuzzer has a wish."""
    try:
        if kind == "operators":
            return mutated_operator(seed)
        if kind == "models":
            return bytes(random_model(seed, op_type).SerializeToString()), {}
        make = {
            "mutants": mutated_model,
            "shapes": model_of_sizes,
            "microsoft": model_of_microsoft,
        }[kind]
        return make(seed), {}
    except (TypeError, ValueError, OverflowError) as error:
        raise AssertionError(f"the fuzzer itself failed at seed {seed}") from error


def attack_model(model: bytes, known: Feeds, seed: int) -> str | None:
    """Makes a session of a model and runs it.

    What is wrong with how long that takes, None where nothing is.

    Errors pass. ``seed`` chooses how the session is made, and what inputs are fed that are not
    ``known``.
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
            if declared.name in known:
                feeds[declared.name] = known[declared.name]
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
