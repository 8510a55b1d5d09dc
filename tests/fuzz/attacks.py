"""What a case does with its seed, and what is wrong with how that ends."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.shapes.inference import STRICT_VARIABLE
from ortpkg.graph.types import ElementType, SequenceType, TensorType, numpy_dtype
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions
from tests.fuzz.authoring import attack_authoring
from tests.fuzz.enlarged import attack_memory
from tests.fuzz.kinds import HANG_S, MEMORY_LIMIT_NBYTES, TIMEOUT_S
from tests.fuzz.microsoft_nodes import model_of_microsoft
from tests.fuzz.mutants import model_of_sizes, mutated_model
from tests.fuzz.operators import Feeds, mutated_operator, operator_cases
from tests.fuzz.packages import attack_document, attack_fault, sample_packages
from tests.fuzz.random_models import random_feeds, random_model

#: Of this thread's time: making a session, or a run, may not take longer, however busy the machine
#: is.
_MOST_STEP_S = 2 * TIMEOUT_S
#: Of the clock on the wall, which others' work on the machine counts towards, and sleep: a run in
#: the background gives a longer ORTPKG_FUZZ_HANG_S, and then only this thread's time counts.
_MOST_WALL_S = HANG_S / 2

#: What attacks packages, by kind.
_PACKAGES: dict[str, Callable[[int], None]] = {
    "documents": attack_document, "faults": attack_fault, "authoring": attack_authoring,
}  # fmt: skip


def prepare(kind: str) -> None:
    """Makes what cases of that kind begin with, which counts towards none."""
    os.environ[STRICT_VARIABLE] = "1"
    if kind in ("operators", "memory"):
        operator_cases()
    elif kind in _PACKAGES:
        sample_packages()
    # What is there stays for the life of the process: the collector need not go through it again.
    gc.collect()
    gc.freeze()


def attack(seed: int, op_type: str = "", kind: str = "models") -> str | None:
    """What is wrong with how the case of that seed ends; None where nothing is."""
    try:
        if kind == "machine_code":
            # the compiler, and what it takes, is loaded where it is attacked
            from tests.fuzz.machine_code.compiled_graphs import attack_machine_code

            return attack_machine_code(seed)
        if kind == "memory":
            started = _Clock()
            return attack_memory(seed) or started.if_late("a kernel")
        if kind in _PACKAGES:
            started = _Clock()
            _PACKAGES[kind](seed)
            return started.if_late("a package")
        return attack_model(*_model_of(seed, op_type, kind), seed)
    except OrtpkgError as error:
        return problem_of(error)
    except Exception:  # noqa: BLE001 - that is what is looked for
        return "untyped: " + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])


def problem_of(error: OrtpkgError) -> str | None:
    """What is wrong with an error that is one of ours; None where nothing is."""
    text = str(error)
    if not text.isprintable():
        return f"unprintable message: {text!a}"
    return f"memory: taken before it was asked for: {text}" if _is_out_of_memory(error) else None


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
