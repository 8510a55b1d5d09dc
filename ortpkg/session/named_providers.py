"""Sees to it that what a session's caller asked for by name runs the model, or a part of it.

A list of names is a wish in order: each allows those behind it, the CPU too if it is named. What
nobody named stands in only if the caller allows it: a model that runs on the CPU in silence costs a
GPU its job (docs/adr/0026-named-providers.md).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ortpkg.engine.partition import Partition
from ortpkg.errors import NoNodeTakenError
from ortpkg.providers.execution_provider import ExecutionProvider
from ortpkg.session.options import DISABLE_CPU_FALLBACK_ENTRY, SessionOptions

_log = logging.getLogger(__name__)


def options_allow_fallback(options: SessionOptions | None) -> bool:
    """Return True if a caller's own options let others stand in for what was named."""
    return options is not None and options.config_entries.get(DISABLE_CPU_FALLBACK_ENTRY) == "0"


def verify_named_claim(
    partitions: Sequence[Partition], providers: Sequence[ExecutionProvider], *, allowed: bool
) -> None:
    """Raise NoNodeTakenError if the providers that were named claim no node of a model.

    Args:
        partitions: of the model, before or after they are compiled.
        providers: of the session.
        allowed: whether others may stand in; then a warning says so.
    """
    named = {provider.name for provider in providers if provider.is_named}
    if partitions and named and not any(each.provider in named for each in partitions):
        _refuse(providers, {}, allowed=allowed)


def verify_named_run(
    partitions: Sequence[Partition], providers: Sequence[ExecutionProvider], *, allowed: bool
) -> None:
    """Raise NoNodeTakenError if backends run nothing on the providers that were named.

    A library takes a partition and may run each node of it elsewhere, as onnxruntime does with what
    one of its execution providers leaves.
    """
    named = {provider.name: provider for provider in providers if provider.is_named}
    reasons: dict[str, str] = {}
    for partition in partitions:
        provider = named.get(partition.provider)
        if provider is None:
            continue
        reason = _why_elsewhere(provider, partition, named)
        if reason is None:
            return
        reasons.setdefault(provider.name, reason)
    if reasons:
        _refuse(providers, reasons, allowed=allowed)


def _why_elsewhere(
    provider: ExecutionProvider, partition: Partition, named: Collection[str]
) -> str | None:
    """Return why a backend runs all of a partition where nobody asked for; None if it does not."""
    places = provider.get_placement(partition.fused_node) if partition.fused_node else ()
    if not places or any(place.node_count != 0 for place in places if place.ep_name in named):
        return None
    reasons = (place.reason for place in places if place.ep_name == provider.name)
    return next(filter(None, reasons), "")


def _refuse(
    providers: Sequence[ExecutionProvider], reasons: dict[str, str], *, allowed: bool
) -> None:
    unique = dict.fromkeys(provider for provider in providers if provider.is_named)
    names = [f"{provider.name} ({provider.backend or 'embedded'})" for provider in unique]
    told = [
        reason
        for provider in unique
        if (reason := reasons.get(provider.name) or provider.get_refusal())
    ]
    why = f": {'; '.join(dict.fromkeys(told))}" if told else ""
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
