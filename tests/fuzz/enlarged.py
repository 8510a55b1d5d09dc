"""The onnx package's node cases on large inputs: a kernel asks for memory before it takes it.

What numpy allocates is traced, and held against what the run was asked for until then. Every choice
comes from the seed.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.isolation.polling import polled
from ortpkg.graph.graph import Node
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.fuzz.kinds import MEMORY_LIMIT_NBYTES
from tests.fuzz.operators import operator_cases
from tests.kernels.node_runner import RunContext, as_node, make_compute

#: What the largest input takes.
_INPUT_NBYTES = 8 << 20
#: What kernels take of any size: blocks, panels, tables.
_SLACK_NBYTES = 6 << 20
_SHARE = 1.2
_TIMEOUT_S = 1.0

#: Input → the axes that grow.
Growth = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _NodeCase:
    node: Node
    inputs: tuple[Any, ...]
    opset: int


@cache
def _node_cases() -> tuple[_NodeCase, ...]:
    """Those of one node without graphs, on tensors."""
    found = []
    for data, feeds in operator_cases():
        model = ModelProto.FromString(data)
        proto = model.graph.node[0]
        names = [name for name in proto.input if name]
        if len(model.graph.node) > 1 or any(each.HasField("g") for each in proto.attribute):
            continue
        if not names or any(not isinstance(feeds.get(name), np.ndarray) for name in names):
            continue
        imports = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in model.opset_import}
        node = as_node(proto, imports)
        inputs = tuple(feeds.get(name) if name else None for name in proto.input)
        found.append(_NodeCase(node, inputs, imports[node.domain]))
    return tuple(found)


def attack_memory(seed: int) -> str | None:
    """What a kernel took without asking, on the inputs of a case, some axes of which have grown."""
    choose = random.Random(seed)
    case = choose.choice(_node_cases())
    inputs = case.inputs
    if choose.random() < 0.4:
        inputs = tuple(_halved(value) for value in inputs)
    growth = _growth(choose, inputs)
    with suppress(Exception):
        _run(case, _grown(inputs, growth, 2.0), RunContext())
        fed, context = _grown(inputs, growth, _factor(inputs, growth)), _Asked()
        tracemalloc.start(1)
        with suppress(Exception):  # the other kinds look at how kernels fail
            _run(case, fed, context)
        context.look()
        tracemalloc.stop()
        return context.problem(case, fed)
    return None  # sizes that do not fit each other, or types without a kernel


def _halved(value: Any) -> Any:
    return value.astype(np.float16) if getattr(value, "dtype", None) == np.float32 else value


def _growth(choose: random.Random, inputs: tuple[Any, ...]) -> Growth:
    """One axis of an input, or all axes of one size, whatever input they belong to."""
    axes = [
        (slot, axis)
        for slot, value in enumerate(inputs)
        if value is not None and value.size
        for axis in range(value.ndim)
    ]
    if not axes:
        return {}
    slot, axis = choose.choice(axes)
    if choose.random() < 0.4:
        return {slot: (axis,)}
    size = inputs[slot].shape[axis]
    chosen: dict[int, tuple[int, ...]] = {}
    for own, at in axes:
        if inputs[own].shape[at] == size:
            chosen[own] = (*chosen.get(own, ()), at)
    return chosen


def _sizes(value: Tensor, axes: tuple[int, ...], factor: float) -> list[int]:
    return [
        max(int(size * factor), 1) if axis in axes else size
        for axis, size in enumerate(value.shape)
    ]


def _grown(inputs: tuple[Any, ...], growth: Growth, factor: float) -> list[Any]:
    """The inputs with axes ``factor`` times as long, which repeat what they had."""
    fed = list(inputs)
    for slot, axes in growth.items():
        for axis in axes:
            size = _sizes(inputs[slot], axes, factor)[axis]
            while fed[slot].shape[axis] < size:
                fed[slot] = np.concatenate([fed[slot]] * 2, axis=axis)
            fed[slot] = fed[slot][(slice(None),) * axis + (slice(0, size),)].copy()
    return fed


def _factor(inputs: tuple[Any, ...], growth: Growth) -> float:
    """By how much axes grow for the largest input to take ``_INPUT_NBYTES``."""
    return min(
        ((_INPUT_NBYTES / inputs[slot].nbytes) ** (1 / len(axes)) for slot, axes in growth.items()),
        default=1.0,
    )


def _run(case: _NodeCase, inputs: list[Any], context: RunContext) -> None:
    _, compute = make_compute(case.node, inputs, case.opset)
    with np.errstate(all="ignore"), polled(context.check_cancelled):
        compute(context, *inputs)


@dataclass
class _Asked(RunContext):
    """A context that knows the most it was asked for, and what was taken beyond.

    It ends like a run with a time limit.
    """

    limit_nbytes: int = MEMORY_LIMIT_NBYTES
    most_nbytes: int = 0
    taken_nbytes: int = 0
    excess_nbytes: float = 0.0
    ends_s: float = field(default_factory=lambda: time.thread_time() + _TIMEOUT_S)

    def look(self) -> None:
        """Holds what was taken until now against what was asked for."""
        _, taken = tracemalloc.get_traced_memory()
        excess = taken - _SHARE * self.most_nbytes - _SLACK_NBYTES
        if excess > self.excess_nbytes:
            self.excess_nbytes, self.taken_nbytes = excess, taken

    def check_allocation(self, nbytes: int) -> None:
        self.look()
        super().check_allocation(nbytes)
        self.most_nbytes = max(self.most_nbytes, self.held_nbytes + nbytes)

    @property
    def is_watched(self) -> bool:
        return True

    def check_cancelled(self) -> None:
        if time.thread_time() > self.ends_s:
            raise LimitExceededError("the time is up", limit="time")

    def problem(self, case: _NodeCase, fed: list[Any]) -> str | None:
        """A finding where more was taken than asked for."""
        if not self.excess_nbytes:
            return None
        shapes = ", ".join(
            "none" if value is None else f"{value.dtype} {value.shape}" for value in fed
        )
        return (
            f"memory: {case.node.op_type} on {shapes} took {self.taken_nbytes >> 20} MiB at a time"
            " when it had asked for less"
        )
