"""Native libraries in a child process: a crash, a hang or a lack of memory ends only the child.

The model is transformed and partitioned here; the child gets its bytes, and then inputs for
outputs. The limits of a run hold to a fraction of a second, since a child can be ended whatever it
does: docs/adr/0009-native-limits.md.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ortpkg.foundations.errors import (
    CompileError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    LimitExceededError,
    RunError,
)
from ortpkg.foundations.host.turns import Turn
from ortpkg.foundations.isolation.run_watch import Watched, WatchedRun, run_watched
from ortpkg.foundations.isolation.worker import (
    Message,
    Worker,
    WorkerCallError,
    WorkerEndedError,
)
from ortpkg.foundations.quantities import amount_text, limit_text, nbytes_text, time_limit_text
from ortpkg.machine.hardware import EpDevice
from ortpkg.machine.json_form import ep_device_to_json
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor, descriptor_from_json
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.isolated_backend import (
    FILES_NBYTES,
    model_message,
    pack_arrays,
    parts_message,
    unpack_arrays,
)
from ortpkg.runtime.providers.library_traits import WeightForm
from ortpkg.runtime.providers.native_library import (
    CompiledModel,
    NativeModel,
    Part,
    WeightlessLibrary,
)
from ortpkg.runtime.providers.openvino_device import openvino_device
from ortpkg.runtime.providers.session_settings import SessionSettings

#: Backends that can be isolated.
ISOLATED_BACKENDS: tuple[str, ...] = ("onnxruntime", "openvino")
_FUNCTION = "ortpkg.runtime.providers.isolated_backend:open_backend"
#: Copies of a model that a library may hold while it loads, beside the limit: the bytes, its own
#: copy, a packed one, and one to work on.
COPIES_OF_A_MODEL = 4
_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Limits for loading a model in a child; None for no limit."""

    memory_limit_nbytes: int | None = None
    timeout_s: float | None = None


class IsolatedLibrary(WeightlessLibrary):
    """Native library in child processes.

    The first child is started at once and loads while this process does other things. Each compiled
    model has a child of its own.
    """

    in_child = True

    def __init__(
        self,
        ep_name: str,
        *,
        backend: str,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
        limits: LoadLimits = LoadLimits(),
    ) -> None:
        self.backend = backend
        self.ep_name = ep_name
        self._ep_devices = tuple(ep_devices)
        self._options = dict(options or {})
        self._limits = limits
        self._worker: Worker | None = self._start()
        self._models: list[_IsolatedModel] = []
        self._environment: ContextDescriptor | None = None
        self._weight_form: WeightForm | None = None

    @property
    def weight_form(self) -> WeightForm:
        """Form of weights that the library takes; the worker is asked, as releases differ."""
        if self._weight_form is None:
            self._worker = self._open(self._worker)
            self._weight_form = WeightForm(self._worker.call(_WEIGHT_FORM).header["weight_form"])
        return self._weight_form

    def unapplied(self, settings: SessionSettings) -> tuple[str, ...]:
        device = (
            openvino_device(self._ep_devices, self._options) if self.backend == "openvino" else ""
        )
        return self.traits.unapplied(settings, device=device)

    def opened(self) -> None:
        self._worker = self._open(self._worker)

    def compile_model(self, model: NativeModel) -> CompiledModel:
        return self._made(compile_request(model))

    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        assert isinstance(compiled, _IsolatedModel)
        return compiled.export(model)

    def import_model(
        self, parts: Mapping[str, Part], file: PartsFile | None = None
    ) -> CompiledModel:
        return self._made(import_request(parts, file))

    @property
    def unshared_reason(self) -> str:
        return "each model is in a child process of its own"

    def import_member(self, parts: Mapping[str, Part], file: PartsFile | None) -> CompiledModel:
        return self._made(import_member_request(parts, file))

    def describe_environment(self) -> ContextDescriptor | None:
        if self._environment is None:
            self._worker = self._open(self._worker)
            environment = self._worker.call(_DESCRIBE).header["environment"]
            self._environment = None if environment is None else descriptor_from_json(environment)
        return self._environment

    def close(self) -> None:
        for model in self._models:
            model.close()
        if self._worker is not None:
            self._worker.close()

    def load(self, worker: Worker | None, request: Message) -> Worker:
        """Return a worker that has made a model by ``request``.

        ``worker`` can be used again if the library refused.

        Args:
            worker: worker to use; None for a new one.
            request: request for the model.
        """
        worker = self._open(worker)
        nbytes = sum(memoryview(buffer).nbytes for buffer in request.buffers)
        nbytes += request.header.get(FILES_NBYTES, 0)
        context = _LoadContext(self._limits, allowance_nbytes=COPIES_OF_A_MODEL * nbytes)
        try:
            call_watched(worker, context, request)
        except WorkerEndedError as error:
            raise CompileError(
                f"the process in which {self.backend} loaded the model is no more:"
                f" {_reason_of(error)}",
                ep_name=self.ep_name,
            ) from error
        return worker

    def _made(self, request: Message) -> CompiledModel:
        worker, self._worker = self._open(self._worker), None
        try:
            made = _IsolatedModel(self, request, worker)
        except WorkerCallError:  # it refused, and can be asked again
            self._worker = worker
            raise
        self._models.append(made)
        return made

    def _start(self) -> Worker:
        try:
            return backend_worker(self.ep_name, self.backend, self._options, self._ep_devices)
        except OSError as error:
            raise ExecutionProviderError(
                f"no child process can be started for {self.backend}: {error.strerror}",
                ep_name=self.ep_name,
            ) from error

    def _open(self, worker: Worker | None) -> Worker:
        """Return a worker with the library loaded, so that a later error comes from the model."""
        worker = worker if worker is not None and worker.is_alive else self._start()
        try:
            call_within(
                worker, LoadLimits(timeout_s=self._limits.timeout_s), open_request(self.settings)
            )
        except WorkerEndedError as error:
            raise ExecutionProviderError(
                f"the library {self.backend} cannot be loaded: {_reason_of(error)}",
                ep_name=self.ep_name,
            ) from error
        except WorkerCallError as error:
            if error.kind == InvalidSessionOptionError.__name__:
                raise InvalidSessionOptionError(str(error), key="provider_options") from error
            raise ExecutionProviderError(str(error), ep_name=self.ep_name) from error
        return worker


def backend_worker(
    ep_name: str, backend: str, options: Mapping[str, str], ep_devices: Sequence[EpDevice]
) -> Worker:
    """Start a child process with a native library; OSError if it cannot be started."""
    ep_device = ep_device_to_json(ep_devices[0]) if ep_devices else None
    arguments = {
        "ep_name": ep_name,
        "backend": backend,
        "options": dict(options),
        "ep_device": ep_device,
    }
    return Worker(_FUNCTION, arguments)


def open_request(settings: SessionSettings) -> Message:
    """Return the request to load a worker's library, for sessions with these settings."""
    return Message(header={"action": "open", "settings": settings.to_json()})


def compile_request(model: NativeModel) -> Message:
    """Return the request to compile a model."""
    return model_message("compile", model)


def import_request(parts: Mapping[str, Part], file: PartsFile | None) -> Message:
    """Return the request to load a context, which the worker maps from its file if there is one."""
    return parts_message("import", parts, file)


def import_member_request(parts: Mapping[str, Part], file: PartsFile | None) -> Message:
    """Return the request to load a weightless context of a group."""
    return parts_message("import_member", parts, file)


_PLACEMENT = Message(header={"action": "placement"})
_DESCRIBE = Message(header={"action": "describe"})
_WEIGHT_FORM = Message(header={"action": "weight_form"})


class _IsolatedModel:
    """Model in a worker; if the worker was ended, the next run starts another."""

    def __init__(self, library: IsolatedLibrary, request: Message, worker: Worker) -> None:
        self._library = library
        self._request = request
        self._turn = Turn()
        self._is_closed = False
        self._worker = library.load(worker, request)
        self._placements = self._ask_placements()

    def compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        holder = threading.Lock()
        with holder:
            self._turn.take(holder, context.check_cancelled)
            return self._compute(inputs, context)

    def _compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        try:
            if self._is_closed:
                raise RunError("the session is closed")
            if not self._worker.is_alive:
                self._worker.close()
                self._worker = self._library.load(None, self._request)
            return unpack_arrays(
                call_watched(self._worker, context, pack_arrays(inputs, action="compute"))
            )
        except WorkerEndedError as error:
            raise RunError(
                f"the process in which {self._library.backend} ran the model is no more:"
                f" {_reason_of(error)}"
            ) from error
        except WorkerCallError as error:
            raise RunError(str(error)) from error

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Return the placement of the last time that the worker was free to answer."""
        holder = threading.Lock()
        with holder, contextlib.suppress(WorkerEndedError):  # the next run raises it
            if self._turn.claim(holder) and self._worker.is_alive:
                self._placements = self._ask_placements()
        return self._placements

    def export(self, model: NativeModel) -> Mapping[str, Part]:
        """Return the parts that the library keeps of the model."""
        holder = threading.Lock()
        with holder:
            self._turn.take(holder, lambda: None)
            try:
                reply = self._worker.call(model_message("export", model))
            except WorkerEndedError as error:
                raise CompileError(
                    f"the process in which {self._library.backend} kept the model is no more:"
                    f" {_reason_of(error)}",
                    ep_name=self._library.ep_name,
                ) from error
        return {
            name: memoryview(part)
            for name, part in zip(reply.header["parts"], reply.buffers, strict=True)
        }

    def close(self) -> None:
        """End the worker; a run under way ends with RunError."""
        self._is_closed = True
        self._worker.close()

    def _ask_placements(self) -> list[BackendPlacement]:
        placements = self._worker.call(_PLACEMENT).header["placements"]
        return [
            BackendPlacement(**{**placement, "node_names": frozenset(placement["node_names"])})
            for placement in placements
        ]


class _LoadContext:
    """Limits of a worker's tasks other than runs, in the form of a run's context."""

    def __init__(self, limits: LoadLimits, *, allowance_nbytes: int = 0) -> None:
        self._limits = limits
        self._deadline = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        self._allowance_nbytes = allowance_nbytes
        self.is_memory_limited = limits.memory_limit_nbytes is not None

    def check_cancelled(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._limits.timeout_s is not None, "a deadline comes of it"
            limit = time_limit_text(self._limits.timeout_s)
            raise LimitExceededError(
                f"loading the model passed the time limit of {limit}", limit="time"
            )

    def check_allocation(self, nbytes: int) -> None:
        limit = self._limits.memory_limit_nbytes
        if limit is not None and nbytes > limit + self._allowance_nbytes:
            raise LimitExceededError(
                f"loading the model takes {amount_text(nbytes)}, which passes the memory limit of"
                f" {limit_text(limit)} and {nbytes_text(self._allowance_nbytes)} for the model"
                " itself",
                limit="memory",
            )


def call_within(worker: Worker, limits: LoadLimits, request: Message) -> Message:
    """Return the worker's reply; if ``limits`` are passed, end it and raise LimitExceededError."""
    return call_watched(worker, _LoadContext(limits), request)


def call_watched(worker: Worker, context: Watched, request: Message) -> Message:
    """Return the worker's reply; end it if the limits of ``context`` are passed."""
    stop = partial(worker.kill, "it was ended at its limit")
    return run_watched(
        context, partial(worker.call, request), stop, resident_nbytes=worker.resident_nbytes
    )


def _reason_of(error: WorkerEndedError) -> str:
    text = str(error)
    return (
        f"{text}, as the system does where memory runs out"
        if text.startswith("it was ended by SIGKILL")
        else text
    )
