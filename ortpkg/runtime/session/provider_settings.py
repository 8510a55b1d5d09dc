"""Pass a session's options to its providers, and log which of them a plug-in ignores.

Our own native providers log that themselves (``NativeExecutionProvider``), and the engine obeys
options for its kernels. Kernels of a plug-in run in that engine, with its threads and memory;
native code of a plug-in does not.
"""

from __future__ import annotations

import logging

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.runtime.engine.provider_answers import guard, is_foreign
from ortpkg.runtime.ep_context.ep_context_options import EpContextOptions
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, GraphEngine
from ortpkg.runtime.providers.session_settings import OBEYED_BY_SESSION, SessionSettings

_log = logging.getLogger(__name__)


def join(
    provider: ExecutionProvider,
    settings: SessionSettings,
    ep_context: EpContextOptions,
    engine: GraphEngine,
) -> None:
    """Pass the session's settings to ``provider``, and log those that a plug-in ignores.

    Raises:
        ExecutionProviderError: the plug-in raised an error.
    """
    with guard(provider, "take the session's options"):
        provider.join_session(settings=settings, ep_context=ep_context, graph_engine=engine)
    if not is_foreign(provider):
        return
    obeyed = _obeyed_by(provider)
    values = (
        (name for name in settings.values if name not in OBEYED_BY_SESSION)
        if provider.computes_natively
        else ()
    )
    unapplied = [
        name for name in (*values, *settings.entries, *settings.other_entries) if name not in obeyed
    ]
    if unapplied:
        names = ", ".join(map(quoted, unapplied))
        _log.warning("%s: these session options do not apply to it: %s", provider.name, names)


def _obeyed_by(provider: ExecutionProvider) -> frozenset[str]:
    with guard(provider, "say which session options it obeys"):
        obeyed = provider.obeyed_settings
        if isinstance(obeyed, str) or not all(isinstance(name, str) for name in obeyed):
            raise ExecutionProviderError(
                f"{provider.name}: obeyed_settings is a collection of names of session options and"
                " config entries",
                ep_name=provider.name,
            )
        return frozenset(obeyed)
