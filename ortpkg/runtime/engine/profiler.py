"""Profiler that times nodes and phases, and writes a trace for ``chrome://tracing`` or Perfetto."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.errors import SessionError, quoted
from ortpkg.graph.types import element_type_of
from ortpkg.runtime.engine.execution_plan import NodeStep
from ortpkg.runtime.engine.pending import Pending, begun
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, Value

_NS_PER_US = 1000
_NS_PER_MS = 1_000_000
_US_PER_S = 1_000_000


class Profiler:
    """Events of one session; safe for threads."""

    def __init__(self) -> None:
        self._origin_ns = time.perf_counter_ns()
        self._began_ms = time.time_ns() // _NS_PER_MS
        self._is_ended = False
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    @property
    def origin_ns(self) -> int:
        """Start of the profile on ``time.perf_counter_ns``'s clock."""
        return self._origin_ns

    def record(
        self, name: str, category: str, start_ns: int, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Add an event that began at ``start_ns`` (``time.perf_counter_ns``) and ends now."""
        end_ns = time.perf_counter_ns()
        event = {
            "cat": category,
            "pid": os.getpid(),
            "tid": threading.get_ident(),
            "dur": (end_ns - start_ns) / _NS_PER_US,
            "ts": (start_ns - self._origin_ns) / _NS_PER_US,
            "ph": "X",
            "name": name,
            "args": dict(arguments or {}),
        }
        with self._lock:
            self._events.append(event)

    def profiled(self, compute: Compute, step: NodeStep) -> Compute:
        """Return ``compute`` with an event per call: operator, provider, bytes in and out."""

        def timed(context: OpKernelContext, *inputs: Value) -> Value:
            start_ns = time.perf_counter_ns()
            result = begun(compute(context, *inputs))
            if isinstance(result, Pending):
                return result.then(lambda value: recorded(value, inputs, start_ns))
            return recorded(result, inputs, start_ns)

        def recorded(result: Value, inputs: tuple[Value, ...], start_ns: int) -> Value:
            outputs = result if isinstance(result, tuple) else (result,)
            arguments = {
                "op_name": step.op_type,
                "provider": step.provider,
                "node_index": str(step.node_index),
                "activation_size": str(_nbytes(inputs)),
                "output_size": str(_nbytes(outputs)),
                "input_type_shape": _types_and_shapes(inputs),
                "output_type_shape": _types_and_shapes(outputs),
            }
            self.record(f"{step.node_name}_kernel_time", "Node", start_ns, arguments)
            return result

        return timed

    def node_durations_s(self) -> dict[tuple[str, str], float]:
        """Return (provider, node name) → seconds in all runs, without those of nodes inside it."""
        with self._lock:
            nodes = [event for event in self._events if event["cat"] == "Node"]
        durations: dict[tuple[str, str], float] = defaultdict(float)
        around: list[tuple[float, tuple[str, str]]] = []  # open events of the thread: end, key
        thread = None
        for event in sorted(nodes, key=lambda event: (event["tid"], event["ts"], -event["dur"])):
            key = (event["args"]["provider"], event["name"].removesuffix("_kernel_time"))
            if event["tid"] != thread:
                thread, around = event["tid"], []
            while around and around[-1][0] <= event["ts"]:
                around.pop()
            duration_s = event["dur"] / _US_PER_S
            durations[key] += duration_s
            if around:
                durations[around[-1][1]] -= duration_s
            around.append((event["ts"] + event["dur"], key))
        return dict(durations)

    def end(self, prefix: str) -> str:
        """Write the trace and return the file's path; "" if it was written before.

        The trace is a JSON array of events by start time, one a line, as onnxruntime writes it. The
        name is onnxruntime's, too: prefix, time of day and milliseconds of the beginning. Of two
        profiles that began together, the second gets a later time.

        Raises:
            SessionError: the file cannot be written.
        """
        with self._lock:
            if self._is_ended:
                return ""
            self._is_ended = True
            events = sorted(self._events, key=lambda event: float(event["ts"]))
        lines = ",\n".join(json.dumps(event) for event in events)
        began_ms = self._began_ms
        while os.path.lexists(path := f"{prefix}_{_stamp(began_ms)}.json"):
            began_ms += 1
        try:
            Path(path).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        except (OSError, ValueError) as error:
            raise SessionError(
                f"the profile cannot be written to {quoted(path)}: {quoted(error)}"
            ) from error
        return path


def _stamp(time_ms: int) -> str:
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S', time.localtime(seconds))}_{milliseconds}"


def _types_and_shapes(values: tuple[Value, ...]) -> list[dict[str, list[int]]]:
    """Return types and shapes of the tensors, in the form of onnxruntime's traces.

    An example is ``{"float": [3, 2]}``.
    """
    tensors = [value for value in values if isinstance(value, np.ndarray)]
    return [{element_type_of(tensor.dtype).name.lower(): list(tensor.shape)} for tensor in tensors]


def _nbytes(values: tuple[Value, ...]) -> int:
    return sum(getattr(value, "nbytes", 0) for value in values)
