"""Explain why the context cache has a context, has none, or has one that cannot be used."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from ortpkg.foundations.errors import EpContextError
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache, context_key
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ENVIRONMENT_FIELDS,
    SOURCE_FIELDS,
    ContextDescriptor,
    ContextMismatch,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import open_context_file


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOutcome:
    """Result of looking up one partition in the cache.

    Attributes:
        partition: name of the partition.
        descriptor: descriptor that was looked up.
        is_hit: True if it was found.
        mismatch: difference to the nearest entry of the same model; None for a hit, or without such
            an entry.
        damage: what is wrong with the entry; "" for nothing, or if it was not checked.
    """

    partition: str
    descriptor: ContextDescriptor
    is_hit: bool
    mismatch: ContextMismatch | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedEntry:
    """Files of the cache that are no valid entry: the context or note is missing or something else.

    Attributes:
        key: key of the entry.
        nbytes: size of its files in bytes.
        why: what is wrong.
    """

    key: str
    nbytes: int
    why: str


def cache_outcome(
    cache: EpContextCache,
    descriptor: ContextDescriptor,
    *,
    partition: str,
    model: str,
    is_checked: bool = False,
) -> CacheOutcome:
    """Look up a partition in the cache, or compare it with the nearest entry of the same model.

    With ``is_checked``, the entry is read and compared with its digests: a damaged one is no hit.
    """
    damage = _damage(cache, descriptor) if is_checked else ""
    if damage:
        return CacheOutcome(partition=partition, descriptor=descriptor, is_hit=False, damage=damage)
    if cache.note_path(context_key(descriptor)).is_file():
        return CacheOutcome(partition=partition, descriptor=descriptor, is_hit=True)
    entries = [entry for entry in cache.entries() if entry.descriptor.ep == descriptor.ep]
    names = (*ENVIRONMENT_FIELDS, *SOURCE_FIELDS)
    related = [
        entry for entry in entries if entry.descriptor.graph_digest == descriptor.graph_digest
    ] or [
        entry for entry in entries if model and (entry.model, entry.partition) == (model, partition)
    ]
    nearest = min(related, key=lambda entry: _distance(entry.descriptor, descriptor), default=None)
    mismatch = (
        None if nearest is None else find_mismatch(nearest.descriptor, descriptor, names=names)
    )
    return CacheOutcome(partition=partition, descriptor=descriptor, is_hit=False, mismatch=mismatch)


def damaged_entries(cache: EpContextCache) -> list[DamagedEntry]:
    """Return the invalid entries of the cache, by key.

    Complete contexts are not compared with their digests.
    """
    sizes: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for path in (*cache.directory.glob("*.bin"), *cache.directory.glob("*.json")):
            with contextlib.suppress(OSError):
                sizes[path.stem] = sizes.get(path.stem, 0) + path.stat().st_size
    flaws = ((key, nbytes, _flaw(cache, key)) for key, nbytes in sorted(sizes.items()))
    return [DamagedEntry(key=key, nbytes=nbytes, why=why) for key, nbytes, why in flaws if why]


def _damage(cache: EpContextCache, descriptor: ContextDescriptor) -> str:
    """Return what is wrong with the entry for a descriptor; "" if there is none, or nothing."""
    key = context_key(descriptor)
    if not cache.context_path(key).exists() and not cache.note_path(key).exists():
        return ""
    if flaw := _flaw(cache, key):
        return flaw
    try:
        file = open_context_file(cache.context_path(key), ep_name=descriptor.ep)
        names = [name for name in file.names if file.descriptor(name) == descriptor]
        for name in names:
            file.entry(name)
    except EpContextError as error:
        return str(error)
    return "" if names else "its context is another one's"


def _flaw(cache: EpContextCache, key: str) -> str:
    """Return why the files of a key are no valid entry; "" if the context's index shows no flaw."""
    if not cache.context_path(key).exists():
        return "its context is gone"
    entry = cache.entry(cache.note_path(key))
    if entry is None:
        return "its note, which says what it is for, is gone or cannot be read"
    try:
        open_context_file(cache.context_path(key), ep_name=entry.descriptor.ep)
    except EpContextError as error:
        return str(error)
    return ""


def _distance(before: ContextDescriptor, now: ContextDescriptor) -> int:
    """Return the number of fields in which two descriptors differ."""
    return sum(
        find_mismatch(before, now, names=(name,)) is not None
        for name in (*ENVIRONMENT_FIELDS, *SOURCE_FIELDS)
    )
