"""Create the parts of a session (model, providers, plan) from its caller's arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ortpkg.foundations.errors import (
    CancelledError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    LimitExceededError,
    LoadCancelledError,
    OrtpkgError,
    UsageError,
)
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.graph.graph import Graph
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.graph.model import Model
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.ep_context.context_node import (
    ep_context_attributes,
    ep_context_nodes,
    verify_maker_exists,
)
from ortpkg.runtime.ep_context.mapped_context import MappedContext
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.added_transformers import AddedTransformers, added_transformers
from ortpkg.runtime.session.default_providers import may_do_without
from ortpkg.runtime.session.isolated_parts import isolated_parts
from ortpkg.runtime.session.model_loading import load_for_session
from ortpkg.runtime.session.node_args import model_metadata, node_args
from ortpkg.runtime.session.options import SessionOptions, check_limits, check_options
from ortpkg.runtime.session.provider_list import register_execution_providers, requested_ep_names
from ortpkg.runtime.session.session_caching import (
    SessionCaching,
    as_recorded,
    caching_of,
    files_of_weights,
    may_be_cached,
)
from ortpkg.runtime.session.session_providers import (
    create_session_providers,
    requested_plugins,
)
from ortpkg.runtime.session.session_state import (
    OnPartitioned,
    SessionState,
    abandon_generating_groups,
    create_session_state,
)
from ortpkg.runtime.session.session_wishes import (
    ContextCheck,
    SessionParts,
    SessionWishes,
    load_wished,
)
from ortpkg.runtime.session.sparse_outputs import sparse_outputs_of
from ortpkg.runtime.session.values.sparse_tensor import SparseTensor


def make_session_parts(wishes: SessionWishes) -> SessionParts:
    """Load, partition and plan the model.

    Raises as :class:`~ortpkg.runtime.session.inference_session.InferenceSession` does.
    """
    source = wishes.source
    path = Path(source).absolute() if source and isinstance(source, str | os.PathLike) else None
    stamp = None if path is None else file_stamp(path)
    with load_limits(_load_control(wishes.options)):
        parts = _make_session_parts(wishes)
    model_file = {} if path is None or stamp is None else {path: stamp}
    return replace(parts, files=model_file | {**parts.files, **model_file})


def _load_control(options: SessionOptions) -> LoadControl:
    memory_limit_nbytes, timeout_s = options.memory_limit_nbytes, options.timeout_s
    try:
        check_limits(memory_limit_nbytes, timeout_s)
    except InvalidSessionOptionError:
        memory_limit_nbytes = timeout_s = None  # wrong limits are reported with the other options
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
        check_options(options)
        if request.isolation is not None and (plugins := requested_plugins(request, options)):
            return isolated_parts(wishes, plugins, request.isolation)
        loaded = _load(wishes, profiler)
    except BaseException as error:
        # any error makes the session's group fail, too
        names = requested_ep_names(request.providers, request.ep_devices, request.backend)
        abandon_generating_groups(options, names, error)
        raise
    parts = loaded if isinstance(loaded, SessionParts) else _planned(wishes, loaded, profiler)
    if profiler is not None:
        profiler.record("session_initialization", "Session", start_ns)
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """Model, providers and context files from which a session is planned.

    Attributes:
        judged: context files that may be loaded; None for all that the model names.
        created: the providers, in order, and True if they are the default ones.
        lookup: result of the cache lookup; None if the session is not cached as a whole.
    """

    model: Model
    judged: Mapping[Path, MappedContext] | None
    added: AddedTransformers
    created: tuple[list[ExecutionProvider], bool]
    lookup: _CacheLookup | None


def _load(wishes: SessionWishes, profiler: Profiler | None) -> _Loaded | SessionParts:
    """Return the session's model and providers, or the whole session if the cache has it."""
    added = added_transformers(wishes.transformers)
    lookup = _ask_cache(wishes, profiler)
    if lookup is not None and lookup.parts is not None:
        return lookup.parts
    model = load_wished(wishes)
    for node in ep_context_nodes(model.graph):
        verify_maker_exists(ep_context_attributes(node))
    check = wishes.check_contexts
    judged = None if check is None else _judged_contexts(model.graph, check)
    created = None if lookup is None else lookup.providers
    if created is None:
        created = create_session_providers(wishes.request, wishes.options, model)
    return _Loaded(model=model, judged=judged, added=added, created=created, lookup=lookup)


def _planned(wishes: SessionWishes, loaded: _Loaded, profiler: Profiler | None) -> SessionParts:
    model, (created, is_default) = loaded.model, loaded.created
    create_state = partial(
        create_session_state,
        options=wishes.options,
        profiler=profiler,
        judged_contexts=loaded.judged,
        transformers=loaded.added,
        allows_fallback=wishes.request.allows_fallback,
    )
    declared = _declared_by(model.graph)
    providers = register_execution_providers(created)
    keep = None if loaded.lookup is None else loaded.lookup.keeper(model, providers)
    try:
        state = create_state(model, providers=providers, on_partitioned=keep)
    except ExecutionProviderError as error:
        if not is_default or not may_do_without(error, providers, wishes.options):
            raise
        providers = register_execution_providers([])
        model = load_wished(wishes)
        state = create_state(model, providers=providers)
    return _parts(model, state, providers, profiler, declared)


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
        files=before.files,
    )


# --- whole sessions in the cache of contexts ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _CacheLookup:
    """Result of looking up a session in the cache.

    Attributes:
        caching: the session's cache entry; None if it has none.
        providers: providers made for the lookup, and True if they are the default ones; None if
            they were used up.
        parts: the session, if it was cached.
    """

    caching: SessionCaching | None
    providers: tuple[list[ExecutionProvider], bool] | None = None
    parts: SessionParts | None = None

    def keeper(self, model: Model, providers: Sequence[ExecutionProvider]) -> OnPartitioned | None:
        """Return the function that caches the session once it is partitioned.

        ``model`` is as loaded.
        """
        if self.caching is None:
            return None
        return partial(self.caching.keep, data=files_of_weights(model.graph), providers=providers)


def _ask_cache(wishes: SessionWishes, profiler: Profiler | None) -> _CacheLookup | None:
    """Return the session from the cache, or its entry there.

    None if such a session is not cached as a whole.
    """
    options = wishes.options
    if wishes.transformers is not None or not may_be_cached(wishes.source, options):
        return None
    created, is_default = create_session_providers(wishes.request, options, None)
    caching = caching_of(wishes.source, options, created)
    cached = None if caching is None else caching.find()
    if caching is None or cached is None:
        return _CacheLookup(caching=caching, providers=(created, is_default))
    providers = register_execution_providers(created)
    try:
        model = load_for_session(cached.model, options, with_own_links=False)
        declared = _declared_by(model.graph)
        state = create_session_state(model, options, providers, profiler, only_contexts=True)
        state = as_recorded(state, cached)
    except (LimitExceededError, InvalidSessionOptionError, CancelledError, LoadCancelledError):
        raise
    except (OrtpkgError, KeyError, TypeError, ValueError) as error:
        caching.drop(error)
        for provider in dict.fromkeys(providers):
            provider.close()
        return _CacheLookup(caching=caching)
    parts = _parts(model, state, providers, profiler, declared)
    return _CacheLookup(caching=caching, parts=parts)


def _judged_contexts(
    graph: Graph, check_contexts: ContextCheck
) -> Mapping[Path, MappedContext] | None:
    """Return the check's answer for the model's contexts; None if it has none."""
    contexts = [*map(ep_context_attributes, ep_context_nodes(graph))]
    return check_contexts(contexts) if contexts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """Inputs and outputs of a model before it is transformed: see :class:`SessionParts`.

    Inputs are the names of those that a run must, or may, feed; files are those of its weights.
    """

    required: list[str]
    overridable: list[str]
    sparse_outputs: Mapping[int, SparseTensor]
    files: Mapping[Path, FileStamp]


def _declared_by(graph: Graph) -> _Declared:
    return _Declared(
        required=[name for name in graph.inputs if name not in graph.initializers],
        overridable=[name for name in graph.inputs if name in graph.initializers],
        sparse_outputs=sparse_outputs_of(graph),
        files={path.absolute(): stamp for path, stamp in files_of_weights(graph).items()},
    )


def _computes_natively(state: SessionState, providers: Sequence[ExecutionProvider]) -> bool:
    native = {provider.name for provider in providers if provider.computes_natively}
    return all(
        partition.fused_node and partition.provider in native for partition in state.partitions
    )
