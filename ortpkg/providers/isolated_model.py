"""Providers whose native library runs in a child process: its crash, hang or hunger ends the child, and is told.

The model is transformed and partitioned here; the child gets its bytes, and then inputs for outputs. The limits of a
run hold to a fraction of a second, since a child can be ended whatever it does: docs/adr/0009-native-limits.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ortpkg.devices.hardware import EpDevice
from ortpkg.errors import (
    CompileError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    LimitExceededError,
    RunError,
)
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.isolation.worker import (
    Message,
    Worker,
    WorkerCallError,
    WorkerEndedError,
)
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import BackendPlacement, ComputeCapability, GraphViewer
from ortpkg.providers.isolated_backend import pack_arrays, unpack_arrays
from ortpkg.providers.run_watch import Watched, run_watched
from ortpkg.providers.whole_model import NUMERIC_TYPES, CompiledModel, WholeModel, WholeModelProvider

ResultT = TypeVar("ResultT")

#: Backends that can be isolated, and what may cross the border to them.
ISOLATED_BACKENDS: Mapping[str, frozenset[ElementType]] = {
    "onnxruntime": NUMERIC_TYPES | {ElementType.STRING},
    "openvino": NUMERIC_TYPES,
}
_FUNCTION = "ortpkg.providers.isolated_backend:open_backend"
#: What a library may hold of a model that it loads, beside the limit: the bytes, its own copy, a packed one, and one to
#: work on.
_COPIES_OF_A_MODEL = 4
_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """What loading a model in a child may take; None for no limit."""

    memory_limit_nbytes: int | None = None
    timeout_s: float | None = None


class IsolatedProvider(WholeModelProvider):
    """A native execution provider in a child process, which is started at once and loads while we do other things."""

    def __init__(
        self,
        ep_name: str,
        *,
        backend: str,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
        limits: LoadLimits = LoadLimits(),
    ) -> None:
        super().__init__(ep_name, ep_devices=ep_devices, options=options)
        self.backend = backend
        self.border_types = ISOLATED_BACKENDS[backend]
        self._limits = limits
        ep_options = dict(ep_devices[0].ep_options) if ep_devices else None
        self._arguments = {"ep_name": ep_name, "backend": backend, "options": self.options, "ep_options": ep_options}
        self._worker: Worker | None = self._start()
        self._models: list[_IsolatedModel] = []

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        self._worker = self._opened(self._worker)
        return super().get_capability(viewer, types_of)

    def compile_model(self, model: WholeModel) -> CompiledModel:
        worker, self._worker = self._opened(self._worker), None
        made = _IsolatedModel(self, model, worker)
        self._models.append(made)
        return made

    def close(self) -> None:
        super().close()
        for model in self._models:
            model.close()
        if self._worker is not None:
            self._worker.close()

    def load(self, worker: Worker | None, model: WholeModel) -> Worker:
        """A worker (``worker``, or a new one) that has compiled ``model``."""
        worker = self._opened(worker)
        header = {"action": "compile", "inputs": model.inputs, "outputs": model.outputs}
        context = _LoadContext(self._limits, allowance_nbytes=_COPIES_OF_A_MODEL * len(model.data))
        request = Message(header=header, buffers=[model.data])
        try:
            call_watched(worker, context, request)
        except WorkerEndedError as error:
            raise CompileError(
                f"the process in which {self.backend} loaded the model is no more: {_told(error)}", ep_name=self.name
            ) from error
        return worker

    def _start(self) -> Worker:
        try:
            return Worker(_FUNCTION, self._arguments)
        except OSError as error:
            raise ExecutionProviderError(
                f"no child process can be started for {self.backend}: {error.strerror}", ep_name=self.name
            ) from error

    def _opened(self, worker: Worker | None) -> Worker:
        """A worker in which the library is loaded, so that what comes next is the model's doing."""
        worker = worker if worker is not None and worker.is_alive else self._start()
        try:
            call_watched(worker, _LoadContext(LoadLimits(timeout_s=self._limits.timeout_s)), _OPEN)
        except WorkerEndedError as error:
            raise ExecutionProviderError(
                f"the library {self.backend} cannot be loaded: {_told(error)}", ep_name=self.name
            ) from error
        except WorkerCallError as error:
            if error.kind == InvalidSessionOptionError.__name__:
                raise InvalidSessionOptionError(str(error), key="provider_options") from error
            raise ExecutionProviderError(str(error), ep_name=self.name) from error
        return worker


_OPEN = Message(header={"action": "open"})
_PLACEMENT = Message(header={"action": "placement"})


class _IsolatedModel:
    """A model in a worker. A worker that was ended is replaced for the next run."""

    def __init__(self, provider: IsolatedProvider, model: WholeModel, worker: Worker) -> None:
        self._provider = provider
        self._model = model
        self._turn = threading.Lock()
        self._is_closed = False
        self._worker = provider.load(worker, model)
        self._places = self._ask_places()

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        while not self._turn.acquire(timeout=_INTERVAL_S):
            context.check_cancelled()
        try:
            if self._is_closed:
                raise RunError("the session is closed")
            if not self._worker.is_alive:
                self._worker.close()
                self._worker = self._provider.load(None, self._model)
            return unpack_arrays(call_watched(self._worker, context, pack_arrays(inputs, action="compute")))
        except WorkerEndedError as error:
            raise RunError(
                f"the process in which {self._provider.backend} ran the model is no more: {_told(error)}"
            ) from error
        except WorkerCallError as error:
            raise RunError(str(error)) from error
        finally:
            self._turn.release()

    def get_placement(self) -> Sequence[BackendPlacement]:
        """As at the last time that the worker was free to tell."""
        if self._turn.acquire(blocking=False):
            try:
                if self._worker.is_alive:
                    self._places = self._ask_places()
            except WorkerEndedError:
                pass  # the next run tells
            finally:
                self._turn.release()
        return self._places

    def close(self) -> None:
        """A run under way ends with RunError."""
        self._is_closed = True
        self._worker.close()

    def _ask_places(self) -> list[BackendPlacement]:
        found = self._worker.call(_PLACEMENT).header["places"]
        return [BackendPlacement(**{**each, "node_names": frozenset(each["node_names"])}) for each in found]


class _LoadContext:
    """Limits of what a worker does beside runs, seen as a run's."""

    def __init__(self, limits: LoadLimits, *, allowance_nbytes: int = 0) -> None:
        self._limits = limits
        self._deadline = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        self._allowance_nbytes = allowance_nbytes

    def check_cancelled(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise LimitExceededError(
                f"loading the model passed the time limit of {self._limits.timeout_s:g} s", limit="time"
            )

    def check_allocation(self, nbytes: int) -> None:
        limit = self._limits.memory_limit_nbytes
        if limit is not None and nbytes > limit + self._allowance_nbytes:
            raise LimitExceededError(
                f"loading the model takes {nbytes:,} bytes, which passes the memory limit of {limit:,} bytes and "
                f"{self._allowance_nbytes:,} for the model itself",
                limit="memory",
            )


def call_watched(worker: Worker, context: Watched, request: Message) -> Message:
    """The worker's reply; it is ended where the limits of ``context`` are passed."""
    stop = partial(worker.kill, "it was ended at its limit")
    return run_watched(context, partial(worker.call, request), stop, resident_nbytes=worker.resident_nbytes)


def _told(error: WorkerEndedError) -> str:
    text = str(error)
    return f"{text}, as the system does where memory runs out" if text.startswith("it was ended by SIGKILL") else text
