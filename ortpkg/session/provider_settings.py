"""Tells a session's providers what its options say, and says what of it a plug-in does not obey.

Libraries of our own say that themselves (``NativeExecutionProvider``), and the engine obeys for its
kernels. What a plug-in computes with kernels runs in that engine, with its threads and memory; what
it computes natively does not.
"""

from __future__ import annotations

import logging

from ortpkg.engine.provider_answers import guard, is_foreign
from ortpkg.ep_context.ep_context_options import EpContextOptions
from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.providers.execution_provider import ExecutionProvider, GraphEngine
from ortpkg.providers.session_settings import OBEYED_BY_SESSION, SessionSettings

_log = logging.getLogger(__name__)


def join(
    provider: ExecutionProvider,
    settings: SessionSettings,
    ep_context: EpContextOptions,
    engine: GraphEngine,
) -> None:
    """Gives ``provider`` what the session has for it, and logs what a plug-in leaves aside.

    ExecutionProviderError for what a plug-in raises.
    """
    with guard(provider, "take the session's options"):
        provider.join_session(settings=settings, ep_context=ep_context, graph_engine=engine)
    if not is_foreign(provider):
        return
    obeyed = _obeyed_by(provider)
    values = (
        (each for each in settings.values if each not in OBEYED_BY_SESSION)
        if provider.computes_natively
        else ()
    )
    unapplied = [
        each for each in (*values, *settings.entries, *settings.other_entries) if each not in obeyed
    ]
    if unapplied:
        names = ", ".join(map(quoted, unapplied))
        _log.warning("%s: these session options do not apply to it: %s", provider.name, names)


def _obeyed_by(provider: ExecutionProvider) -> frozenset[str]:
    with guard(provider, "say which session options it obeys"):
        obeyed = provider.obeyed_settings
        if isinstance(obeyed, str) or not all(isinstance(each, str) for each in obeyed):
            raise ExecutionProviderError(
                f"{provider.name}: obeyed_settings is a collection of names of session options and"
                " config entries",
                ep_name=provider.name,
            )
        return frozenset(obeyed)
