"""Clear the cache of contexts: what would go is found first, to be told or deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ortpkg.ep_context.cache_leftovers import find_leftovers
from ortpkg.ep_context.cache_outcome import damaged_entries
from ortpkg.ep_context.cached_sessions import CachedSessions
from ortpkg.ep_context.claim_refusals import kept_refusals
from ortpkg.ep_context.ep_context_cache import EpContextCache
from ortpkg.ep_names import LLVM_EP


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheClearing:
    """What goes.

    Attributes:
        cache: of contexts.
        contexts: keys, those of damaged entries among them.
        damaged: how many of them are damaged.
        leftovers: files that killed sessions left half written.
        kernels: files of compiled kernels.
        refusals: files of what libraries refused, so that they are asked anew.
        sessions: keys of partitioned models that need a context which goes, or is gone.
    """

    cache: EpContextCache
    contexts: tuple[str, ...]
    damaged: int
    leftovers: tuple[Path, ...]
    kernels: tuple[Path, ...]
    refusals: tuple[Path, ...]
    sessions: tuple[str, ...]

    def files(self) -> Iterator[Path]:
        """All that goes and is there."""
        sessions = CachedSessions(self.cache)
        for key in self.contexts:
            yield from self.cache.files_of(key)
        yield from self.leftovers
        yield from self.kernels
        yield from self.refusals
        for key in self.sessions:
            yield from sessions.files_of(key)

    def carry_out(self) -> None:
        """Delete it; what another process holds open (on Windows) stays."""
        for key in self.contexts:
            self.cache.drop(key)
        for path in (*self.leftovers, *self.kernels, *self.refusals):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        sessions = CachedSessions(self.cache)
        for key in self.sessions:
            sessions.drop(key)


def clearing_of(
    cache: EpContextCache, *, ep: str | None = None, most_nbytes: int | None = None
) -> CacheClearing:
    """What goes: the contexts of one EP, all, or all but the last used of a size in sum.

    Compiled kernels go with all contexts of LLVMExecutionProvider; where a size counts, they stay:
    they keep to one of their own.

    What is damaged or half written goes unless only an execution provider's is to go; where a size
    counts, refusals stay.
    """
    damaged = [each.key for each in damaged_entries(cache)] if ep is None else []
    entries = cache.entries() if most_nbytes is None else cache.beyond(most_nbytes)
    chosen = (each.key for each in entries if ep is None or each.descriptor.ep == ep)
    contexts = tuple(dict.fromkeys((*damaged, *chosen)))
    leftovers = find_leftovers(cache.directory) if ep is None else []
    refusals = () if most_nbytes is not None else kept_refusals(cache.directory)
    kernels = cache.kernels if most_nbytes is None and ep in (None, LLVM_EP) else None
    return CacheClearing(
        cache=cache,
        contexts=contexts,
        damaged=len(damaged),
        leftovers=tuple(each.path for each in leftovers),
        kernels=() if kernels is None else tuple(kernels.files()),
        refusals=tuple(path for path, named in refusals if ep is None or named == ep),
        sessions=tuple(CachedSessions(cache).outdated(gone=contexts)),
    )
