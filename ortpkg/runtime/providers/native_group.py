"""Ends a session group on a native library: its contexts share weights if that is possible.

The library compiles the models of the group anew, together. Their contexts become weightless: the
compiled code and the weights are parts that all of them name, so that both are stored once. If a
group has nothing to share, or the library cannot, each context stays as it was made, with weights
of its own, and the log says why.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.runtime.ep_context.ep_context_descriptor import ENVIRONMENT_FIELDS, find_mismatch
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.library_words import words_of
from ortpkg.runtime.providers.native_library import (
    COMPILED,
    WEIGHTS,
    GroupLibrary,
    NativeLibrary,
    NativeModel,
    Part,
)

#: Log of contexts of a group that keep weights of their own, with the reason.
GROUP_LOG = logging.getLogger(__name__)

_DIGEST_PREFIX = "sha256:"


def share_weights(
    library: NativeLibrary, entries: Sequence[ContextEntry], weights_offset: int, *, ep_name: str
) -> Sequence[ContextEntry]:
    """Return the contexts of a group with one set of weights.

    Contexts that cannot share it are unchanged, and come last.

    Args:
        library: library of the last session.
        entries: contexts that the sessions made; those that have a source can be compiled together.
        weights_offset: offset in the binary at which the first part of the first context will
            begin.
        ep_name: name of the execution provider, for the log.
    """
    if len(entries) < 2:
        return [replace(entry, source=None) for entry in entries]
    models = {
        entry.name: entry.source for entry in entries if isinstance(entry.source, NativeModel)
    }
    first = next((entry for entry in entries if entry.name in models), None)
    together = [
        entry
        for entry in entries
        if entry.name in models
        and first is not None
        and find_mismatch(first.descriptor, entry.descriptor, names=ENVIRONMENT_FIELDS) is None
    ]
    shared: dict[str, ContextEntry] = {}
    reason = library.unshared_reason
    if isinstance(library, GroupLibrary) and not reason and len(together) > 1:
        try:
            shared = _shared(
                library, together, [models[entry.name] for entry in together], weights_offset
            )
        except Exception as error:  # noqa: BLE001 - full contexts are there already, whatever the library raises
            reason = words_of(error)
    rest = [replace(entry, source=None) for entry in entries if entry.name not in shared]
    if rest:
        GROUP_LOG.warning(
            "%d of %d contexts of the group of %s keep weights of their own: %s",
            len(rest),
            len(entries),
            ep_name,
            reason or "they were compiled with other options, or carried over from another binary",
        )
    return [*shared.values(), *rest]


def _shared(
    library: GroupLibrary,
    entries: Sequence[ContextEntry],
    models: Sequence[NativeModel],
    weights_offset: int,
) -> dict[str, ContextEntry]:
    made = library.export_group(models, weights_offset)
    source = _DIGEST_PREFIX + hashlib.sha256(made.weights).hexdigest()
    # The weights come first: only the offset of the file's first part is known beforehand.
    return {
        entry.name: replace(
            entry,
            descriptor=replace(entry.descriptor, weights_source=source),
            parts={WEIGHTS: made.weights, COMPILED: made.compiled, **parts},
            source=None,
        )
        for entry, parts in zip(entries, made.members, strict=True)
    }


def check_weights(entry: ContextEntry, *, ep_name: str) -> None:
    """Raise EpContextError if a weightless context has other weights beside it than its own."""
    recorded, actual = entry.descriptor.weights_source, _digest_of(entry)
    if recorded != actual:
        raise EpContextError(
            f"the context of partition {quoted(entry.name)} is weightless, and its weights are not"
            f" those it was compiled with: it needs {quoted(recorded)}, beside it lies"
            f" {quoted(actual)}; compile the model anew",
            ep_name=ep_name,
            partition_name=entry.name,
        )


def _digest_of(entry: ContextEntry) -> str:
    """Return the digest of the weights.

    It is that of the file's index, which was compared; without one it is computed.
    """
    digests: Mapping[str, str] = entry.digests
    if WEIGHTS in digests:
        return _DIGEST_PREFIX + digests[WEIGHTS]
    part: Part | None = entry.parts.get(WEIGHTS)
    return "none" if part is None else _DIGEST_PREFIX + hashlib.sha256(part).hexdigest()
