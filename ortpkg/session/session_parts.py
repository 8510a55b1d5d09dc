"""What a session is made of: from its caller's arguments to the model, its providers and the
plan.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ortpkg.engine.profiler import Profiler
from ortpkg.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    ep_context_nodes,
)
from ortpkg.ep_context.mapped_context import MappedContext
from ortpkg.errors import (
    CancelledError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    LimitExceededError,
    LoadCancelledError,
    OrtpkgError,
    UsageError,
)
from ortpkg.graph.graph import Graph
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelSource
from ortpkg.providers.execution_provider import ExecutionProvider
from ortpkg.providers.isolated_model import COPIES_OF_A_MODEL, LoadLimits
from ortpkg.providers.plugins import Plugin, registered_values
from ortpkg.session.added_transformers import OwnTransformers, added_transformers
from ortpkg.session.cached_session import (
    SessionCaching,
    as_recorded,
    caching_of,
    files_of_weights,
    may_be_cached,
)
from ortpkg.session.caller_warnings import warn_caller
from ortpkg.session.default_providers import may_do_without
from ortpkg.session.environment import global_thread_pool_sizes
from ortpkg.session.isolated_session import IsolatedSession
from ortpkg.session.model_loading import load_for_session
from ortpkg.session.node_args import ModelMetadata, NodeArg, model_metadata, node_args
from ortpkg.session.options import SessionOptions, check_limits, check_session_options
from ortpkg.session.provider_list import register_execution_providers, requested_ep_names
from ortpkg.session.session_providers import (
    ProviderRequest,
    create_session_providers,
    requested_plugins,
)
from ortpkg.session.session_request import SessionRequest
from ortpkg.session.session_state import (
    OnPartitioned,
    SessionState,
    abandon_generating_groups,
    create_session_state,
)
from ortpkg.session.sparse_outputs import sparse_outputs_of
from ortpkg.session.sparse_tensor import SparseTensor

#: Judges a model's EPContext nodes; returns the files of contexts that may be loaded, as it opened
#: them.
ContextCheck = Callable[[Sequence[EpContextAttributes]], Mapping[Path, MappedContext] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWishes:
    """What a session is made from; see :class:`~ortpkg.session.inference_session.InferenceSession`.

    Attributes:
        options: the session's own, as :func:`effective_options` returns them.
    """

    source: ModelSource
    options: SessionOptions
    request: ProviderRequest
    check_contexts: ContextCheck | None = None
    transformers: OwnTransformers | None = None
    is_confined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    """A session that is ready to run.

    Attributes:
        required, overridable: inputs that must be fed, and those with a default value.
        declared: both, as the model declares them.
        sparse_outputs: see :func:`~ortpkg.session.sparse_outputs.sparse_outputs_of`.
        state: what is planned here, or the child process that has it all.
        is_native: native libraries, or another process, run all of it, so that numpy's settings and
            threads are no matter.
    """

    providers: list[ExecutionProvider]
    state: SessionState | IsolatedSession
    profiler: Profiler | None
    required: list[NodeArg]
    overridable: list[NodeArg]
    declared: list[NodeArg]
    outputs: list[NodeArg]
    sparse_outputs: Mapping[int, SparseTensor] = field(default_factory=dict)
    metadata: ModelMetadata
    is_native: bool


def make_session_parts(wishes: SessionWishes) -> SessionParts:
    """Loads, partitions and plans the model.

    Raises as :class:`~ortpkg.session.inference_session.InferenceSession` does.
    """
    with load_limits(_load_control(wishes.options)):
        return _make_session_parts(wishes)


def _load_control(options: SessionOptions) -> LoadControl:
    memory_limit_nbytes, timeout_s = options.memory_limit_nbytes, options.timeout_s
    try:
        check_limits(memory_limit_nbytes, timeout_s)
    except InvalidSessionOptionError:
        memory_limit_nbytes = timeout_s = (
            None  # refused with all else that is wrong with the options
        )
    return LoadControl(
        memory_limit_nbytes=memory_limit_nbytes,
        timeout_s=timeout_s,
        check=options.check_not_cancelled,
    )


def _make_session_parts(wishes: SessionWishes) -> SessionParts:
    options, request = wishes.options, wishes.request
    if wishes.source == "":
        raise UsageError("the path of the model is empty; give the path of a file, or its bytes")
    profiler = Profiler() if options.enable_profiling else None
    start_ns = time.perf_counter_ns()
    try:
        check_session_options(options)
        if request.isolation is not None and (plugins := requested_plugins(request, options)):
            return _isolated_parts(wishes, plugins, request.isolation)
        added = added_transformers(wishes.transformers)
        place = _ask_cache(wishes, profiler)
        if place is not None and place.parts is not None:
            _note_start(profiler, start_ns)
            return place.parts
        model = load_for_session(wishes.source, options, with_own_links=not wishes.is_confined)
        judged = (
            None
            if wishes.check_contexts is None
            else _judged_contexts(model.graph, wishes.check_contexts)
        )
        if place is not None and place.providers is not None:
            created, is_default = place.providers
        else:
            created, is_default = create_session_providers(request, options, model)
    except (
        BaseException
    ) as error:  # whatever it is, the session group that this session is of fails with it
        names = requested_ep_names(request.providers, request.ep_devices, request.backend)
        abandon_generating_groups(options, names, error)
        raise
    create_state = partial(
        create_session_state,
        options=options,
        profiler=profiler,
        judged_contexts=judged,
        transformers=added,
    )
    declared = _declared_by(model.graph)
    providers = register_execution_providers(created)
    keep = None if place is None else place.keeper(model, providers)
    try:
        state = create_state(model, providers=providers, on_partitioned=keep)
    except ExecutionProviderError as error:
        if not is_default or not may_do_without(error, providers, options):
            raise
        providers = register_execution_providers([])
        model = load_for_session(wishes.source, options, with_own_links=not wishes.is_confined)
        state = create_state(model, providers=providers)
    parts = _parts(model, state, providers, profiler, declared)
    _note_start(profiler, start_ns)
    return parts


def _parts(
    model: Model,
    state: SessionState,
    providers: list[ExecutionProvider],
    profiler: Profiler | None,
    before: _Declared,
) -> SessionParts:
    return SessionParts(
        providers=providers,
        state=state,
        profiler=profiler,
        required=node_args(model.graph, before.required),
        overridable=node_args(model.graph, before.overridable),
        declared=node_args(model.graph, model.graph.inputs),
        outputs=node_args(model.graph, model.graph.outputs),
        sparse_outputs=before.sparse_outputs,
        metadata=model_metadata(model),
        is_native=_computes_natively(state, providers),
    )


def _note_start(profiler: Profiler | None, start_ns: int) -> None:
    if profiler is not None:
        profiler.record("session_initialization", "Session", start_ns)


# --- whole sessions in the cache of contexts ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachePlace:
    """What came of asking the cache for a session.

    Attributes:
        caching: its place there; None where it has none.
        providers: made to ask, and whether they are the default ones; None where they were used up.
        parts: the session, where it was there.
    """

    caching: SessionCaching | None
    providers: tuple[list[ExecutionProvider], bool] | None = None
    parts: SessionParts | None = None

    def keeper(self, model: Model, providers: Sequence[ExecutionProvider]) -> OnPartitioned | None:
        """What keeps the session once it is partitioned; ``model`` is as it was loaded."""
        if self.caching is None:
            return None
        return partial(self.caching.keep, data=files_of_weights(model.graph), providers=providers)


def _ask_cache(wishes: SessionWishes, profiler: Profiler | None) -> _CachePlace | None:
    """The session from the cache, or where it goes.

    None where such a session is not kept as a whole.
    """
    options = wishes.options
    if wishes.transformers is not None or not may_be_cached(wishes.source, options):
        return None
    created, is_default = create_session_providers(wishes.request, options, None)
    caching = caching_of(wishes.source, options, created)
    found = None if caching is None else caching.find()
    if caching is None or found is None:
        return _CachePlace(caching=caching, providers=(created, is_default))
    providers = register_execution_providers(created)
    try:
        model = load_for_session(found.model, options, with_own_links=False)
        declared = _declared_by(model.graph)
        state = create_session_state(model, options, providers, profiler, only_contexts=True)
        state = as_recorded(state, found)
    except (LimitExceededError, InvalidSessionOptionError, CancelledError, LoadCancelledError):
        raise
    except (OrtpkgError, KeyError, TypeError, ValueError) as error:
        caching.drop(error)
        for provider in dict.fromkeys(providers):
            provider.close()
        return _CachePlace(caching=caching)
    parts = _parts(model, state, providers, profiler, declared)
    return _CachePlace(caching=caching, parts=parts)


def _isolated_parts(
    wishes: SessionWishes, plugins: Sequence[Plugin], limits: LoadLimits
) -> SessionParts:
    """A session whose providers are plug-ins, in a child process as a whole."""
    if wishes.transformers:
        raise InvalidSessionOptionError(
            "transformers of your own cannot cross into the child process of a session; make it"
            " with isolate=False",
            key="transformers",
        )
    digests, allowance_nbytes = None, 0
    if wishes.check_contexts is not None or limits.memory_limit_nbytes is not None:
        model = load_for_session(
            wishes.source, wishes.options, with_own_links=not wishes.is_confined
        )
        allowance_nbytes = COPIES_OF_A_MODEL * sum(
            each.nbytes for each in model.graph.initializers.values()
        )
        if wishes.check_contexts is not None:
            digests = _judged_digests(model.graph, wishes.check_contexts)
    session = IsolatedSession(
        SessionRequest(
            source=wishes.source,
            options=wishes.options,
            providers=wishes.request,
            is_confined=wishes.is_confined,
            digests=digests,
            registered=registered_values(),
        ),
        plugins,
        limits,
        allowance_nbytes=allowance_nbytes,
    )
    facts = session.facts
    for told in facts["warnings"]:
        warn_caller(told)
    return SessionParts(
        providers=[ExecutionProvider(name, options=own) for name, own in facts["providers"]],
        state=session,
        profiler=None,
        required=facts["inputs"],
        overridable=facts["overridable"],
        declared=facts["declared"],
        outputs=facts["outputs"],
        metadata=facts["metadata"],
        is_native=True,
    )


def _judged_digests(graph: Graph, check_contexts: ContextCheck) -> tuple[str, ...]:
    """SHA-256 of the contexts that the check lets pass, for who loads them in another process."""
    contexts = [*map(ep_context_attributes, ep_context_nodes(graph))]
    judged = (check_contexts(contexts) if contexts else None) or {}
    embedded = [hashlib.sha256(each.ep_cache_context) for each in contexts if each.embed_mode]
    mapped = [hashlib.sha256(each.data) for each in judged.values()]
    return tuple(each.hexdigest() for each in (*embedded, *mapped))


def effective_options(stated: SessionOptions | None) -> SessionOptions:
    """A copy of a caller's options, with the process's numbers of threads where the session is to
    share these.

    Raises TypeError for what are no options.
    """
    if not isinstance(stated, SessionOptions | None):
        raise TypeError(
            f"sess_options are SessionOptions, not {type(stated).__name__}; name other arguments"
        )
    options = copy.deepcopy(stated) if stated is not None else SessionOptions()
    options.intra_op_num_threads = max(options.intra_op_num_threads, 0)
    options.inter_op_num_threads = max(options.inter_op_num_threads, 0)
    shared = None if options.use_per_session_threads else global_thread_pool_sizes()
    if shared is not None:
        options.intra_op_num_threads, options.inter_op_num_threads = shared
    return options


def _judged_contexts(
    graph: Graph, check_contexts: ContextCheck
) -> Mapping[Path, MappedContext] | None:
    """What the check returns for the model's contexts; None where it has none."""
    contexts = [*map(ep_context_attributes, ep_context_nodes(graph))]
    return check_contexts(contexts) if contexts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """What a model says before anything is made of it: see :class:`SessionParts`.

    Inputs by their names.
    """

    required: list[str]
    overridable: list[str]
    sparse_outputs: Mapping[int, SparseTensor]


def _declared_by(graph: Graph) -> _Declared:
    return _Declared(
        required=[name for name in graph.inputs if name not in graph.initializers],
        overridable=[name for name in graph.inputs if name in graph.initializers],
        sparse_outputs=sparse_outputs_of(graph),
    )


def _computes_natively(state: SessionState, providers: Sequence[ExecutionProvider]) -> bool:
    native = {provider.name for provider in providers if provider.computes_natively}
    return all(each.fused_node and each.provider in native for each in state.partitions)
