"""Times nodes and phases, and writes them as a Chrome trace (open it in ``chrome://tracing`` or Perfetto)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortpkg.engine.execution_plan import NodeStep
from ortpkg.engine.pending import Pending, begun
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, Value

_NS_PER_US = 1000
_US_PER_S = 1_000_000


class Profiler:
    """Events of one session; safe for threads."""

    def __init__(self) -> None:
        self._origin_ns = time.perf_counter_ns()
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    @property
    def origin_ns(self) -> int:
        """When the profile began, on ``time.perf_counter_ns``'s clock."""
        return self._origin_ns

    def record(self, name: str, category: str, start_ns: int, arguments: Mapping[str, str] | None = None) -> None:
        """Adds an event that began at ``start_ns`` (``time.perf_counter_ns``) and ends now."""
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
        """``compute`` with an event per call: operator, provider, bytes in and out."""

        def timed(context: OpKernelContext, *inputs: Value) -> Value:
            start_ns = time.perf_counter_ns()
            result = begun(compute(context, *inputs))
            if isinstance(result, Pending):
                return result.then(lambda found: recorded(found, inputs, start_ns))
            return recorded(result, inputs, start_ns)

        def recorded(result: Value, inputs: tuple[Value, ...], start_ns: int) -> Value:
            outputs = result if isinstance(result, tuple) else (result,)
            arguments = {
                "op_name": step.op_type,
                "provider": step.provider,
                "node_index": str(step.node_index),
                "activation_size": str(_nbytes(inputs)),
                "output_size": str(_nbytes(outputs)),
            }
            self.record(f"{step.node_name}_kernel_time", "Node", start_ns, arguments)
            return result

        return timed

    def node_durations_s(self) -> dict[tuple[str, str], float]:
        """(provider, node name) → seconds in all runs so far, without what nodes of graphs inside the node took."""
        with self._lock:
            nodes = [event for event in self._events if event["cat"] == "Node"]
        durations: dict[tuple[str, str], float] = defaultdict(float)
        around: list[tuple[float, tuple[str, str]]] = []  # of the same thread: end, and whose
        thread = None
        for event in sorted(nodes, key=lambda each: (each["tid"], each["ts"], -each["dur"])):
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

    def write(self, path: Path) -> None:
        """Writes the trace, a JSON array of events by start time, one a line, as onnxruntime does."""
        with self._lock:
            events = sorted(self._events, key=lambda event: float(event["ts"]))
        lines = ",\n".join(json.dumps(event) for event in events)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _nbytes(values: tuple[Value, ...]) -> int:
    return sum(getattr(value, "nbytes", 0) for value in values)
