"""Check that execution providers that the caller named run the model, or a part of it.

Names in a list are alternatives in order; the CPU counts if it is named. An execution provider that
was not named may run the whole model only if the caller allows it. Otherwise a model could silently
run on the CPU instead of a GPU (docs/adr/0026-named-providers.md).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ortpkg.foundations.errors import NoNodeTakenError
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.options import DISABLE_CPU_FALLBACK_ENTRY, SessionOptions

_log = logging.getLogger(__name__)


def options_allow_fallback(options: SessionOptions | None) -> bool:
    """Return True if a session's options allow providers that were not named to run all."""
    return options is not None and options.config_entries.get(DISABLE_CPU_FALLBACK_ENTRY) == "0"


def verify_named_claim(
    partitions: Sequence[Partition], providers: Sequence[ExecutionProvider], *, allowed: bool
) -> None:
    """Raise NoNodeTakenError if the providers that were named claim no node of a model.

    Args:
        partitions: partitions of the model, compiled or not.
        providers: providers of the session.
        allowed: True if others may run the model: then this logs a warning instead.
    """
    named = {provider.name for provider in providers if provider.is_named}
    if partitions and named and not any(partition.provider in named for partition in partitions):
        _refuse(providers, {}, allowed=allowed)


def verify_named_run(
    partitions: Sequence[Partition], providers: Sequence[ExecutionProvider], *, allowed: bool
) -> None:
    """Raise NoNodeTakenError if backends run no node on the providers that were named.

    A library that takes a partition may still run its nodes elsewhere: onnxruntime runs on the CPU
    what an execution provider leaves. Arguments are those of :func:`verify_named_claim`.
    """
    named = {provider.name: provider for provider in providers if provider.is_named}
    reasons: dict[str, str] = {}
    for partition in partitions:
        provider = named.get(partition.provider)
        if provider is None:
            continue
        reason = _elsewhere_reason(provider, partition, named)
        if reason is None:
            return
        reasons.setdefault(provider.name, reason)
    if reasons:
        _refuse(providers, reasons, allowed=allowed)


def _elsewhere_reason(
    provider: ExecutionProvider, partition: Partition, named: Collection[str]
) -> str | None:
    """Return why a backend runs no node of a partition on a named provider; None if it does."""
    placements = provider.get_placement(partition.fused_node) if partition.fused_node else ()
    if not placements or any(
        placement.node_count != 0 for placement in placements if placement.ep_name in named
    ):
        return None
    reasons = (placement.reason for placement in placements if placement.ep_name == provider.name)
    return next(filter(None, reasons), "")


def _refuse(
    providers: Sequence[ExecutionProvider], reasons: dict[str, str], *, allowed: bool
) -> None:
    unique = dict.fromkeys(provider for provider in providers if provider.is_named)
    names = [f"{provider.name} ({provider.backend or 'embedded'})" for provider in unique]
    explanations = [
        reason
        for provider in unique
        if (reason := reasons.get(provider.name) or provider.get_refusal())
    ]
    why = f": {'; '.join(dict.fromkeys(explanations))}" if explanations else ""
    takes = "was asked for and takes" if len(names) == 1 else "were asked for and take"
    problem = f"{', '.join(names)} {takes} no node of the model{why}"
    if allowed:
        _log.warning("%s; others run it, as the caller allows", problem)
        return
    raise NoNodeTakenError(
        f"{problem}; name another execution provider, or allow others to run it"
        " (allow_fallback=True, --allow-fallback)",
        ep_name=next(iter(unique)).name,
    )
