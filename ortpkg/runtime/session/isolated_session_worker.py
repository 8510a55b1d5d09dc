"""Worker process that holds a whole session and the plug-ins that it runs on.

A crash or hang of the plug-ins ends the worker only. The parent's side is
:mod:`ortpkg.runtime.session.isolated_session`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.isolation.value_serialization import dump_value, portable_error
from ortpkg.foundations.isolation.worker import Message
from ortpkg.foundations.isolation.worker_main import tell
from ortpkg.runtime.ep_context.context_node import EpContextAttributes
from ortpkg.runtime.ep_context.judged_contexts import load_only
from ortpkg.runtime.ep_context.mapped_context import MappedContext
from ortpkg.runtime.providers.foreign_code import tell_foreign_code
from ortpkg.runtime.providers.plugin_probe import load
from ortpkg.runtime.providers.plugins import ENTRY_POINT_GROUP, register_plugin, try_nothing_first
from ortpkg.runtime.session.crossing_values import pack_values, unpack_values
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions
from ortpkg.runtime.session.session_request import SessionRequest, read_session_request

#: Most log lines reported for one request; the rest is dropped.
_MOST_LOG_LINES = 200


def open_plugins(plugins: Sequence[tuple[str, str]]) -> Callable[[Message], Message]:
    """Import the plug-ins (name, "module:object") and return the worker's request handler.

    They are imported here, before any limit is measured.
    """
    tell_foreign_code(tell)
    try_nothing_first()
    for name, value in plugins:
        tell(f"{name} was to be imported")
        load(ENTRY_POINT_GROUP, name, value)
    return _Server().answer


class _LogBuffer(logging.Handler):
    """Log handler that collects lines until somebody takes them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) < _MOST_LOG_LINES:
            self._lines.append((record.name, record.levelno, record.getMessage()))

    def take(self) -> list[tuple[str, int, str]]:
        """Return the lines logged since the last call."""
        lines, self._lines = self._lines, []
        return lines


class _Server:
    """Server of one session, which the first request creates."""

    def __init__(self) -> None:
        self._session: InferenceSession | None = None
        self._log = _LogBuffer()

    def answer(self, request: Message) -> Message:
        """Return the reply, with the lines logged meanwhile."""
        reply = self._answer(request)
        logged = self._log.take()
        return replace(reply, header={**reply.header, "logged": logged}) if logged else reply

    def _answer(self, request: Message) -> Message:
        """Return the reply; an error of ours is a reply too, so that the parent can raise it."""
        try:
            action = request.header["action"]
            if action == "open":
                logger = logging.getLogger("ortpkg")
                logger.addHandler(self._log)
                logger.setLevel(request.header["log_level"])
                return Message()
            if action == "make":
                for value in request.header["registered"]:
                    register_plugin(value)
                self._session, texts = _make(read_session_request(request))
                return Message(buffers=[dump_value({**_facts(self._session), "warnings": texts})])
            assert self._session is not None
            if action == "run":
                return _run(self._session, request)
            return Message(
                buffers=[dump_value(_ANSWERS[action](self._session, *request.header["arguments"]))]
            )
        except OrtpkgError as error:
            return Message(header={"raised": True}, buffers=[dump_value(portable_error(error))])


def _make(session_request: SessionRequest) -> tuple[InferenceSession, list[str]]:
    """Create the session; return it with the texts of the warnings issued meanwhile."""
    request = session_request.providers
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        session = InferenceSession(
            session_request.source,
            session_request.options,
            request.providers,
            request.provider_options,
            backend=request.backend,
            ep_devices=request.ep_devices,
            check_contexts=None
            if session_request.digests is None
            else partial(_load_only, session_request),
            is_confined=session_request.is_confined,
            enable_fallback=request.falls_back,
            allow_fallback=request.allows_fallback,
        )
    session.disable_fallback()  # the parent falls back
    return session, [str(warning.message) for warning in issued if warning.category is UserWarning]


def _load_only(
    session_request: SessionRequest, contexts: Sequence[EpContextAttributes]
) -> Mapping[Path, MappedContext] | None:
    """Return the context files that the parent accepted."""
    model = (
        Path(session_request.source)
        if isinstance(session_request.source, str)
        else Path("model.onnx")
    )
    return load_only(contexts, model=model, digests=session_request.digests or ())


def _facts(session: InferenceSession) -> dict[str, Any]:
    return {
        "inputs": session.get_inputs(),
        "overridable": session.get_overridable_initializers(),
        "declared": session.get_declared_inputs(),
        "outputs": session.get_outputs(),
        "metadata": session.get_modelmeta(),
        "partitions": session.get_partitions(),
        "providers": [
            (name, session.get_provider_options()[name]) for name in session.get_providers()
        ],
        "profiling_start_ns": session.get_profiling_start_time_ns(),
    }


def _run(session: InferenceSession, request: Message) -> Message:
    header = request.header
    values = unpack_values(header["feeds"], request.buffers)
    names = [value_info.name for value_info in session.get_declared_inputs()]
    feeds = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    limits = RunOptions(
        memory_limit_nbytes=header["memory_limit_nbytes"], timeout_s=header["timeout_s"]
    )
    outputs = [value_info.name for value_info in session.get_outputs()]
    wanted = None if header["positions"] is None else [outputs[at] for at in header["positions"]]
    described, buffers = pack_values(session.run(wanted, feeds, limits))
    return Message(header={"outputs": described}, buffers=buffers)


#: Request → the method that answers it.
_ANSWERS: Mapping[str, Callable[..., Any]] = {
    "plan": InferenceSession.get_plan,
    "placement": InferenceSession.get_placement,
    "end_profiling": InferenceSession.end_profiling,
}
