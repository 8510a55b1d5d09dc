"""In a worker: a whole session, with the plug-ins that it runs on.

Their crash or hang ends the worker.

The parent's side is :mod:`ortpkg.session.isolated_session`; both share how a session and its values
cross over.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ortpkg.ep_context.context_node import EpContextAttributes
from ortpkg.ep_context.mapped_context import MappedContext
from ortpkg.errors import OrtpkgError
from ortpkg.isolation.own_values import dump_value, portable_error
from ortpkg.isolation.worker import Message
from ortpkg.isolation.worker_main import tell
from ortpkg.providers.foreign_code import tell_foreign_code
from ortpkg.providers.plugin_probe import load
from ortpkg.providers.plugins import ENTRY_POINT_GROUP, register_plugin, try_nothing_first
from ortpkg.session.crossing_values import pack_values, unpack_values
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import RunOptions
from ortpkg.session.session_request import SessionRequest, read_session_request
from ortpkg.trust.judged_contexts import load_only

#: Of one request; what comes after is not told.
_MOST_LOG_LINES = 200


def open_plugins(plugins: Sequence[tuple[str, str]]) -> Callable[[Message], Message]:
    """The worker's handler.

    The plug-ins (name, "module:object") are imported here, before anything is measured.
    """
    tell_foreign_code(tell)
    try_nothing_first()
    for name, value in plugins:
        tell(f"{name} was to be imported")
        load(ENTRY_POINT_GROUP, name, value)
    return _Server().answer


class _KeptLog(logging.Handler):
    """Keeps what is logged until somebody takes it."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._lines) < _MOST_LOG_LINES:
            self._lines.append((record.name, record.levelno, record.getMessage()))

    def take(self) -> list[tuple[str, int, str]]:
        """What was logged since the last call."""
        taken, self._lines = self._lines, []
        return taken


class _Server:
    """One session, made by the first request."""

    def __init__(self) -> None:
        self._session: InferenceSession | None = None
        self._log = _KeptLog()

    def answer(self, request: Message) -> Message:
        """The reply, with what was logged meanwhile."""
        reply = self._answer(request)
        logged = self._log.take()
        return replace(reply, header={**reply.header, "logged": logged}) if logged else reply

    def _answer(self, request: Message) -> Message:
        """The reply; what is raised on purpose is one, so that the parent can raise it, too."""
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
                self._session, told = _make(read_session_request(request))
                return Message(buffers=[dump_value({**_facts(self._session), "warnings": told})])
            assert self._session is not None
            if action == "run":
                return _run(self._session, request)
            return Message(
                buffers=[dump_value(_ASKED[action](self._session, *request.header["arguments"]))]
            )
        except OrtpkgError as error:
            return Message(header={"raised": True}, buffers=[dump_value(portable_error(error))])


def _make(asked: SessionRequest) -> tuple[InferenceSession, list[str]]:
    """The session, and what its making warned of."""
    request = asked.providers
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session = InferenceSession(
            asked.source,
            asked.options,
            request.providers,
            request.provider_options,
            backend=request.backend,
            ep_devices=request.ep_devices,
            check_contexts=None if asked.digests is None else partial(_load_only, asked),
            is_confined=asked.is_confined,
            enable_fallback=request.falls_back,
            allow_fallback=request.allows_fallback,
        )
    session.disable_fallback()  # it is the parent's
    return session, [str(each.message) for each in told if each.category is UserWarning]


def _load_only(
    asked: SessionRequest, contexts: Sequence[EpContextAttributes]
) -> Mapping[Path, MappedContext] | None:
    """The files of contexts that the parent judged."""
    model = Path(asked.source) if isinstance(asked.source, str) else Path("model.onnx")
    return load_only(contexts, model=model, digests=asked.digests or ())


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
    names = [each.name for each in session.get_declared_inputs()]
    feeds = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    limits = RunOptions(
        memory_limit_nbytes=header["memory_limit_nbytes"], timeout_s=header["timeout_s"]
    )
    outputs = [each.name for each in session.get_outputs()]
    wanted = None if header["positions"] is None else [outputs[at] for at in header["positions"]]
    described, buffers = pack_values(session.run(wanted, feeds, limits))
    return Message(header={"outputs": described}, buffers=buffers)


#: What a session says of itself, by what it is asked.
_ASKED: Mapping[str, Callable[..., Any]] = {
    "plan": InferenceSession.get_plan,
    "placement": InferenceSession.get_placement,
    "end_profiling": InferenceSession.end_profiling,
}
