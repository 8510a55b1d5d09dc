"""InferenceSession: onnxruntime's Python API over the embedded engine."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import EpContextError, ExecutionProviderError, SessionError, quoted
from ortpkg.foundations.host.cores import threads_for_quota
from ortpkg.foundations.host.signal_handlers import call_with_handlers_errors
from ortpkg.graph.model_file import ModelSource
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.engine.provider_answers import end_quietly
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.blas_threads import call_with_blas_threads
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.providers.isolated_model import LoadLimits
from ortpkg.runtime.session.added_transformers import OwnTransformers
from ortpkg.runtime.session.async_runs import AsyncCallback, AsyncRuns
from ortpkg.runtime.session.caller_warnings import warn_caller
from ortpkg.runtime.session.feeds import FeedCheck, check_all_are_fed, check_output_names
from ortpkg.runtime.session.lora_adapter import LoraAdapter, fed_with_adapters
from ortpkg.runtime.session.named_providers import options_allow_fallback
from ortpkg.runtime.session.onnxruntime_surface import OnnxruntimeSurface
from ortpkg.runtime.session.options import (
    BACKEND_ENTRY,
    ExecutionMode,
    RunOptions,
    SessionOptions,
    check_options,
)
from ortpkg.runtime.session.options_of_model import with_options_of_model
from ortpkg.runtime.session.pickled_session import remade, session_recipe
from ortpkg.runtime.session.provider_list import ProviderName
from ortpkg.runtime.session.session_parts import make_session_parts
from ortpkg.runtime.session.session_providers import ProviderRequest
from ortpkg.runtime.session.session_state import SessionState
from ortpkg.runtime.session.session_wishes import (
    ContextCheck,
    SessionParts,
    SessionWishes,
    effective_options,
)
from ortpkg.runtime.session.sparse_outputs import with_sparse_outputs
from ortpkg.runtime.session.thread_choice import ThreadChoice
from ortpkg.runtime.session.values.device_values import (
    NO_BORDERS,
    DeviceBorders,
    Left,
    device_borders,
    placed,
)
from ortpkg.runtime.session.values.ort_value import OrtValue

_log = logging.getLogger(__name__)


class InferenceSession(OnnxruntimeSurface):
    """A model that is ready to run. Any number of threads may run it at the same time."""

    def __init__(
        self,
        path_or_bytes: ModelSource,
        sess_options: SessionOptions | None = None,
        providers: Sequence[ProviderName] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
        *,
        backend: str | None = None,
        ep_devices: Sequence[tuple[EpDevice, Mapping[str, str]]] | None = None,
        isolate: bool = False,
        check_contexts: ContextCheck | None = None,
        transformers: OwnTransformers | None = None,
        is_confined: bool = False,
        enable_fallback: bool = True,
        allow_fallback: bool | None = None,
        **ignored: Any,
    ) -> None:
        """Load, partition and plan a model.

        Args:
            path_or_bytes: a model file, or a serialized model.
            sess_options: options of the session; copied, so later changes have no effect.
            providers: execution providers in order of priority, names or (name, options); the
                embedded CPU provider is added last. None: those of the options, else those in
                ``ORTPKG_PROVIDERS``, else all that this machine supports, in the built-in order
                (docs/adr/0016-default-providers.md). Unavailable ones are left out, with a warning.
            provider_options: options by position, if ``providers`` are plain names.
            backend: implementation of the named providers ("embedded", "openvino", "onnxruntime", a
                plug-in's name); None: the config entry ``ortpkg.backend``, else the first that has
                them.
            ep_devices: EP devices with options, as selection returns them, instead of
                ``providers``.
            isolate: True to load and run the model in a child process if onnxruntime or OpenVINO
                runs it. Limits then hold whatever the library does, also while it loads, and its
                crash is an error here. A session on a plug-in runs in a child as a whole
                (docs/plugins.md). Inputs and outputs are copied, and runs of several threads take
                turns.
            check_contexts: called with the model's EPContext nodes, if it has any, before an
                execution provider sees them; its exceptions are passed on. Only the context files
                that it returns are loaded, as it opened them; None: all that the model names.
            transformers: graph transformers and rewrite rules of your own, by level; they run after
                the built-in ones of that level (docs/transformers.md).
            is_confined: True not to read external data behind symbolic links, even links that
                belong to you, since the model comes from a stranger's package. Links of a model
                cache are always followed.
            enable_fallback: True to warn and use the CPU if ``providers`` are not available, or one
                of them fails in a run. Has no effect with ``backend`` or ``ep_devices``: if these
                are not available, that is an error.
            allow_fallback: True to let other providers run the model if the named ones take no node
                of it; otherwise that is an ExecutionProviderError. Later names in ``providers``
                count as named. None: True if ``sess_options`` have the entry
                ``session.disable_cpu_ep_fallback`` as "0".
            ignored: keywords of onnxruntime that have no meaning here, or unknown ones; a log line
                names them.

        Raises:
            LimitExceededError: isolated, the model took more to load than the options' limits
                allow.
            ModelError, ExecutionProviderError, SessionError: see their subclasses.
        """
        _note_ignored(ignored)
        options = effective_options(sess_options)
        if not is_confined:
            options = with_options_of_model(options, path_or_bytes)
        request = ProviderRequest(
            providers=providers,
            provider_options=provider_options,
            ep_devices=ep_devices,
            backend=_configured_backend(options) if backend is None else backend,
            falls_back=bool(enable_fallback),
            allows_fallback=options_allow_fallback(sess_options)
            if allow_fallback is None
            else bool(allow_fallback),
            isolation=_load_limits(options) if isolate else None,
        )
        wishes = SessionWishes(
            source=path_or_bytes,
            options=options,
            request=request,
            check_contexts=check_contexts,
            transformers=transformers,
            is_confined=is_confined,
        )
        self._falls_back = request.falls_back and request.is_by_name
        self._async_runs = AsyncRuns()
        self._closing = (
            threading.RLock()
        )  # a signal handler may call close() in the middle of close()
        self._is_closed = self._is_released = self._closes_later = False
        self._take(wishes, call_with_handlers_errors(partial(make_session_parts, wishes)))

    def _take(self, wishes: SessionWishes, parts: SessionParts) -> None:
        self._wishes, self._options = wishes, wishes.options
        self._providers, self._state, self._profiler = parts.providers, parts.state, parts.profiler
        self._is_native, self._files = parts.is_native, parts.files
        self._inputs, self._overridable, self._outputs = (
            parts.required,
            parts.overridable,
            parts.outputs,
        )
        self._metadata, self._declared, self._sparse_outputs = (
            parts.metadata,
            parts.declared,
            parts.sparse_outputs,
        )
        self._weight_nbytes = sum(partition.weight_nbytes for partition in parts.state.partitions)
        state = parts.state
        self._borders = (
            device_borders(state.executable) if isinstance(state, SessionState) else NO_BORDERS
        )
        self._check_feeds = FeedCheck(
            parts.declared,
            frozenset(initializer.name for initializer in parts.overridable),
            self._borders.inputs,
        )
        self._output_names = [declared.name for declared in parts.outputs]
        #: The linear-algebra library starts a thread per core and ignores CPU quotas.
        self._quota_threads = threads_for_quota()
        self._thread_choice = ThreadChoice() if _leaves_threads_to_us(self._options) else None

    @property
    def _model_path(self) -> str | None:
        """Path of the model, under the name in onnxruntime that wrappers of sessions read."""
        source = self._wishes.source
        return os.fspath(source) if isinstance(source, str | os.PathLike) else None

    # --- running ----------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Value]:
        """Run the model once and return the named outputs (all, if none are named).

        The caller owns the outputs.

        Args:
            output_names: outputs to return, in order; None for all.
            input_feed: a value for each input.
            run_options: limits of the run.

        Raises:
            InvalidFeedError: a feed of the wrong name, type or shape.
            UsageError: an unknown output name.
            RunError: a kernel failed; the message names the node.
            LimitExceededError: the run passed its memory limit or its time.
            CancelledError: ``run_options.terminate`` was set.
        """
        return self._run_or_fall_back(output_names, input_feed, run_options)

    def _run_bound(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        _targets: Mapping[str, object],
        run_options: RunOptions | None,
    ) -> list[Value]:
        return self._run_or_fall_back(output_names, input_feed, run_options, _targets)

    def _run_or_fall_back(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
        targets: Mapping[str, object] | None = None,
    ) -> list[Value]:
        try:
            return self._run(output_names, input_feed, run_options, targets)
        except ExecutionProviderError as error:
            if not self._falls_back or isinstance(
                error, EpContextError
            ):  # no other provider can read the context
                raise
            warn_caller(
                f"{error}; the session falls back to {CPU_EP} (disable_fallback makes this an"
                " error)"
            )
        self.set_providers([CPU_EP])
        self._falls_back = False  # only once
        return self._run(output_names, input_feed, run_options, targets)

    def _run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
        targets: Mapping[str, object] | None,
    ) -> list[Value]:
        self._check_open()
        positions = (
            None  # all outputs
            if output_names == self._output_names
            else check_output_names(output_names, self._output_names)
        )
        compute = partial(self._computed, positions, input_feed, run_options, targets)
        try:
            results = call_with_handlers_errors(compute)
        finally:
            if self._closes_later:
                self.close()
        return (
            with_sparse_outputs(results, self._sparse_outputs, positions)
            if self._sparse_outputs
            else results
        )

    def _computed(
        self,
        positions: Sequence[int] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
        targets: Mapping[str, object] | None,
    ) -> list[Value]:
        if run_options is not None and (adapters := _adapters_of(run_options)):
            input_feed = fed_with_adapters(input_feed, adapters)
        control = self._run_control(run_options)
        feeds = self._check_feeds(input_feed, control.check)
        bound = self._bound(targets) if targets else None
        start_ns = time.perf_counter_ns()
        if self._is_native:
            # the library has its own threads; setting numpy's would cost as much as a small model
            results = self._state.run(feeds, control, positions, bound)
        else:
            compute = partial(self._state.run, feeds, control, positions, bound)
            results = self._with_threads(feeds, compute)
        if self._profiler is not None:
            self._profiler.record("model_run", "Session", start_ns)
        return results

    def _bound(self, targets: Mapping[str, object]) -> dict[int, object]:
        """Return position → target for the outputs that a run can write to their target itself."""
        device_outputs = self._borders.outputs
        return {
            self._output_names.index(name): target
            for name, target in targets.items()
            if isinstance(target, np.ndarray)
            or getattr(target, "memory", "") == device_outputs.get(name)
        }

    def _with_threads(
        self, feeds: Sequence[Value], compute: Callable[[], list[Value]]
    ) -> list[Value]:
        """Run with the threads of the linear-algebra library that the session wants, or chooses."""
        choice = self._thread_choice
        if choice is None:
            count = self._options.intra_op_num_threads or self._quota_threads
            return call_with_blas_threads(count, compute)
        shapes = tuple([getattr(feed, "shape", None) for feed in feeds])
        kind, is_alone, began = choice.begin(shapes)
        results = call_with_blas_threads(1 if is_alone else self._quota_threads, compute)
        choice.end(kind, is_alone, began)
        return results

    def _run_control(self, run_options: RunOptions | None) -> RunControl:
        limit, timeout_s = self._options.memory_limit_nbytes, self._options.timeout_s
        if run_options is None:
            return RunControl(
                memory_limit_nbytes=limit, timeout_s=timeout_s, weight_nbytes=self._weight_nbytes
            )
        check_options(run_options)
        return RunControl(
            memory_limit_nbytes=(
                limit
                if run_options.memory_limit_nbytes is None
                else run_options.memory_limit_nbytes
            ),
            timeout_s=timeout_s if run_options.timeout_s is None else run_options.timeout_s,
            is_terminated=lambda: run_options.terminate,
            weight_nbytes=self._weight_nbytes,
        )

    def get_device_borders(self) -> DeviceBorders:
        """Return the inputs and outputs that can stay on a device, with their memories."""
        return self._borders

    def run_with_values_left(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        left: Mapping[str, str],
        run_options: RunOptions | None = None,
    ) -> list[Value]:
        """Run as :meth:`run` does, and leave some outputs on a device, as OrtValues.

        Args:
            output_names: outputs to return, in order.
            input_feed: a value for each input.
            left: output → name of the memory that it stays in (:meth:`get_device_borders`).
            run_options: limits of the run.
        """
        targets = {name: Left(memory) for name, memory in left.items()}
        results = self._run_or_fall_back(output_names, input_feed, run_options, targets)
        return [
            OrtValue(placed(result, targets[name])) if name in left else result
            for name, result in zip(output_names, results, strict=True)
        ]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: AsyncCallback,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run the model in the background and hand the outcome to a callback.

        Args:
            output_names: outputs to return, in order; None for all.
            input_feed: a value for each input.
            callback: called in another thread as ``callback(outputs, user_data, error)``; ``error``
                is "" after a successful run.
            user_data: passed to the callback.
            run_options: limits of the run.

        Raises:
            InvalidFeedError: an input is missing. The callback gets every other error.
            TypeError: ``callback`` cannot be called.
        """
        self._check_open()
        if not callable(callback):
            raise TypeError(f"callback is a function, not a {type(callback).__name__}")
        if type(input_feed) is dict:
            check_all_are_fed(input_feed, self._inputs, ())
        self._async_runs.submit(
            partial(self.run, output_names, input_feed, run_options), callback, user_data
        )

    # --- providers --------------------------------------------------------------------------------

    def set_providers(
        self,
        providers: Sequence[ProviderName] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Create the session anew with other providers, from its model and options as they are now.

        Runs under way end first. If the session cannot be created, this one stays as it was.

        Raises:
            SessionError: called from a signal handler in the middle of a run of this thread.
        """
        self._check_open()
        if self._state.is_inside():
            raise SessionError(
                "set_providers waits for the runs, and was called in the middle of one"
            )
        request = replace(
            self._wishes.request,
            providers=providers,
            provider_options=provider_options,
            ep_devices=None,
            backend=_configured_backend(self._options),
            falls_back=False,
        )
        wishes = replace(self._wishes, request=request)
        parts = call_with_handlers_errors(partial(make_session_parts, wishes))
        self._release()
        self._take(wishes, parts)

    def disable_fallback(self) -> None:
        """Make the failure of an execution provider in a run an error from now on."""
        self._falls_back = False

    def enable_fallback(self) -> None:
        """Replace an EP that fails in a run by the CPU, once, with a warning."""
        self._falls_back = True

    # --- ending -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Free everything once the runs under way have ended; the session cannot run any more.

        The callback of a ``run_async`` may call it: other background runs then end by themselves. A
        signal handler may call it in the middle of a run, which then frees everything when it ends.
        If an exception ends the wait, call it again.
        """
        self._is_closed = True
        if self._state.is_inside():
            self._closes_later = True
            return
        self._async_runs.shutdown()
        with self._closing:
            if not self._is_released:
                self._release()
                self._is_released = True

    def _release(self) -> None:
        """Free what the session holds, once the runs under way have ended."""
        self._state.close()
        for provider in dict.fromkeys(self._providers):
            end_quietly(provider, provider.close)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle what the session was created from; unpickling creates a session anew.

        Raises:
            SessionError: the session is closed, a file of its model was changed since, an argument
                cannot be pickled, or a large model exists in memory only.
        """
        self._check_open()
        recipe = session_recipe(self._wishes, self._files, falls_back=self._falls_back)
        return remade, (type(self), recipe)

    def __copy__(self) -> NoReturn:
        """Raise TypeError: any number of threads may share a session."""
        raise TypeError("cannot copy an 'InferenceSession' object; share it, or make another")

    def __deepcopy__(self, _memo: object) -> NoReturn:
        """Raise TypeError: any number of threads may share a session."""
        self.__copy__()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def _configured_backend(options: SessionOptions) -> str | None:
    return options.config_entries.get(BACKEND_ENTRY)


def _load_limits(options: SessionOptions) -> LoadLimits:
    return LoadLimits(memory_limit_nbytes=options.memory_limit_nbytes, timeout_s=options.timeout_s)


def _note_ignored(keywords: Collection[str]) -> None:
    if keywords:
        _log.warning("InferenceSession ignores the keywords %s", ", ".join(map(quoted, keywords)))


def _adapters_of(run_options: RunOptions) -> tuple[LoraAdapter, ...]:
    try:
        return run_options.active_adapters
    except AttributeError:
        raise TypeError(f"run_options are RunOptions, not {type(run_options).__name__}") from None


def _leaves_threads_to_us(options: SessionOptions) -> bool:
    """Return True if the number of threads may be chosen for each run."""
    is_free = not options.intra_op_num_threads and not options.use_deterministic_compute
    return is_free and options.execution_mode is ExecutionMode.ORT_SEQUENTIAL
