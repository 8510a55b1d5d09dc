"""Loads a compiled context first in a child process, which may crash or hang instead of us.

A success is remembered, by the digests of the context and by what it was loaded with. It says
nothing about intentions: a child protects from accidents, not from attackers. A
:class:`ContextLoader` loads contexts in the child: the native libraries' is here, that of plug-ins
in :mod:`ortpkg.runtime.session.plugin_context_loader`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

from ortpkg.foundations.errors import EpContextError, LimitExceededError, quoted
from ortpkg.foundations.isolation.worker import Message, Worker, WorkerCallError, WorkerEndedError
from ortpkg.foundations.storage.fact_cache import prune_facts, read_fact, write_fact
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.execution_provider import FusedNode
from ortpkg.runtime.providers.isolated_model import (
    LoadLimits,
    backend_worker,
    call_within,
    import_member_request,
    import_request,
)
from ortpkg.runtime.providers.library_words import quoted_words

_log = logging.getLogger(__name__)

#: Large contexts take seconds on a loaded machine; one that hangs must not hang us for good.
FIRST_LOAD_TIMEOUT_S = 300.0
_KIND = "ep_context_loads"
_MOST_KEPT = 1000

#: One lock per trial under way: sessions made at the same time try a shared context once.
_TRIALS: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
_TRIALS_LOCK = threading.Lock()


class ContextLoader(Protocol):
    """Loader of an execution provider's contexts in a child process."""

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        """JSON on which a trial depends, beside the context and the environment."""
        ...

    def start(self, ep_name: str) -> Worker:
        """Start the child process; OSError if it cannot be started."""
        ...

    def load_request(self, entry: ContextEntry, fused: FusedNode) -> Message:
        """Return the request to load the context of the partition."""
        ...

    def trial_requests(self, fused: FusedNode) -> Iterable[Message]:
        """Return requests that the child must survive afterwards, such as a run.

        The child may refuse them.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeContextLoader:
    """Loader of a native library's contexts; see ``isolated_model.ISOLATED_BACKENDS``."""

    backend: str
    options: Mapping[str, str]
    ep_devices: Sequence[EpDevice]

    @property
    def fingerprint(self) -> Mapping[str, Any]:
        return {}  # the environment has all of it

    def start(self, ep_name: str) -> Worker:
        return backend_worker(ep_name, self.backend, self.options, self.ep_devices)

    def load_request(self, entry: ContextEntry, fused: FusedNode) -> Message:
        del fused
        is_weightless = bool(entry.descriptor.weights_source)
        make = import_member_request if is_weightless else import_request
        return make(entry.parts, entry.file)

    def trial_requests(self, fused: FusedNode) -> Iterable[Message]:
        del fused
        return ()


def load_in_child_first(
    entry: ContextEntry,
    here: ContextDescriptor,
    loader: ContextLoader,
    fused: FusedNode,
    *,
    tried: Mapping[str, Any] | None = None,
) -> None:
    """Load a context in a child process, unless an earlier trial succeeded.

    Args:
        entry: the context.
        here: the environment.
        loader: loads it in the child.
        fused: partition of the context.
        tried: JSON of what the library sees of the context; contexts with equal JSON, such as the
            members of a group, are tried once. By default the digests of all parts.

    Raises:
        EpContextError: the child crashed, hung, or could not load it.
    """
    if not entry.digests:
        _try_in_child(entry, here.ep, loader, fused)
        return
    parts = dict(entry.digests if tried is None else tried)
    key = {"parts": parts, "environment": here.to_json(), **loader.fingerprint}
    if read_fact(_KIND, key) is not None:
        return
    with _trial_of(key):
        if read_fact(_KIND, key) is not None:  # another thread has tried it meanwhile
            return
        _try_in_child(entry, here.ep, loader, fused)
        write_fact(_KIND, key, True)
    prune_facts(_KIND, keep=_MOST_KEPT)


def _trial_of(key: Mapping[str, Any]) -> threading.Lock:
    """Return the lock for the trial that ``key`` stands for."""
    with _TRIALS_LOCK:
        return _TRIALS.setdefault(json.dumps(key, sort_keys=True), threading.Lock())


def _try_in_child(
    entry: ContextEntry, ep_name: str, loader: ContextLoader, fused: FusedNode
) -> None:
    reason = _load(entry, ep_name, loader, fused)
    if reason:
        raise EpContextError(
            f"{ep_name} cannot load the context of partition {quoted(entry.name)}; in the child"
            f" process that tried first: {reason}",
            ep_name=ep_name,
            source=entry.descriptor.ep,
            partition_name=entry.name,
        )


def _load(entry: ContextEntry, ep_name: str, loader: ContextLoader, fused: FusedNode) -> str:
    """Return why loading failed; "" if it succeeded."""
    worker: Worker | None = None
    limits = LoadLimits(timeout_s=FIRST_LOAD_TIMEOUT_S)
    doing = ""
    try:
        worker = loader.start(ep_name)
        call_within(worker, limits, loader.load_request(entry, fused))
        doing = "in its first run, on zeros, "
        for request in loader.trial_requests(fused):
            _try(worker, limits, request)
    except WorkerEndedError as error:
        return f"{doing}{error}"
    except WorkerCallError as error:
        return quoted_words(error)
    except LimitExceededError:
        return f"{doing}it did not end within {FIRST_LOAD_TIMEOUT_S:g} s"
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    finally:
        if worker is not None:
            worker.close()
    return ""


def _try(worker: Worker, limits: LoadLimits, request: Message) -> None:
    """Send a request; the child may refuse it, since it may not like zeros, but must survive."""
    try:
        call_within(worker, limits, request)
    except WorkerCallError as error:
        _log.debug("the trial of a context was refused: %s", error)
