"""Sessions on plug-ins, which run in a child process as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
)
from ortpkg.graph.graph import Graph
from ortpkg.runtime.ep_context.context_node import (
    ep_context_attributes,
    ep_context_nodes,
)
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.isolated_model import COPIES_OF_A_MODEL, LoadLimits
from ortpkg.runtime.providers.plugins import Plugin, registered_values
from ortpkg.runtime.session.caller_warnings import warn_caller
from ortpkg.runtime.session.isolated_session import IsolatedSession
from ortpkg.runtime.session.session_request import SessionRequest
from ortpkg.runtime.session.session_wishes import (
    ContextCheck,
    SessionParts,
    SessionWishes,
    load_wished,
)


def isolated_parts(
    wishes: SessionWishes, plugins: Sequence[Plugin], limits: LoadLimits
) -> SessionParts:
    """Return a session in a child process, for providers that are plug-ins."""
    if wishes.transformers:
        raise InvalidSessionOptionError(
            "transformers of your own cannot cross into the child process of a session; make it"
            " with isolate=False",
            key="transformers",
        )
    digests, allowance_nbytes = _judged_model(wishes, limits)
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
    for text in facts["warnings"]:
        warn_caller(text)
    return SessionParts(
        providers=[
            ExecutionProvider(name, options=options) for name, options in facts["providers"]
        ],
        state=session,
        profiler=None,
        required=facts["inputs"],
        overridable=facts["overridable"],
        declared=facts["declared"],
        outputs=facts["outputs"],
        metadata=facts["metadata"],
        is_native=True,
    )


def _judged_model(wishes: SessionWishes, limits: LoadLimits) -> tuple[tuple[str, ...] | None, int]:
    """Return the contexts that the child may load, and the bytes that its copies of the model take.

    Contexts are given by their SHA-256; None allows any.
    """
    if wishes.check_contexts is None and limits.memory_limit_nbytes is None:
        return None, 0
    graph = load_wished(wishes).graph
    nbytes = COPIES_OF_A_MODEL * sum(
        initializer.nbytes for initializer in graph.initializers.values()
    )
    if wishes.check_contexts is None:
        return None, nbytes
    return _judged_digests(graph, wishes.check_contexts), nbytes


def _judged_digests(graph: Graph, check_contexts: ContextCheck) -> tuple[str, ...]:
    """Return the SHA-256 of the contexts that the check accepts, for the child process."""
    contexts = [*map(ep_context_attributes, ep_context_nodes(graph))]
    judged = (check_contexts(contexts) if contexts else None) or {}
    embedded = [
        hashlib.sha256(context.ep_cache_context) for context in contexts if context.embed_mode
    ]
    mapped = [hashlib.sha256(mapped_context.data) for mapped_context in judged.values()]
    return tuple(digest.hexdigest() for digest in (*embedded, *mapped))
