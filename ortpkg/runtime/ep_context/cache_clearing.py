"""Clear the context cache: find what would be deleted, to report or delete it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.runtime.ep_context.cache_leftovers import find_leftovers
from ortpkg.runtime.ep_context.cache_outcome import damaged_entries
from ortpkg.runtime.ep_context.cached_sessions import SessionCache
from ortpkg.runtime.ep_context.claim_refusals import kept_refusals
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheClearing:
    """Files to delete from a cache.

    Attributes:
        cache: the context cache.
        contexts: keys of contexts, including damaged entries.
        damaged: number of damaged entries among them.
        leftovers: half-written files of killed sessions.
        kernels: files of compiled kernels.
        refusals: files of libraries' refusals, so that the libraries are asked again.
        sessions: keys of partitioned models that need a context which is deleted or missing.
    """

    cache: EpContextCache
    contexts: tuple[str, ...]
    damaged: int
    leftovers: tuple[Path, ...]
    kernels: tuple[Path, ...]
    refusals: tuple[Path, ...]
    sessions: tuple[str, ...]

    def files(self) -> Iterator[Path]:
        """Yield all existing files to delete."""
        sessions = SessionCache(self.cache)
        for key in self.contexts:
            yield from self.cache.files_of(key)
        yield from self.leftovers
        yield from self.kernels
        yield from self.refusals
        for key in self.sessions:
            yield from sessions.files_of(key)

    def carry_out(self) -> None:
        """Delete the files; those that another process holds open (on Windows) stay."""
        for key in self.contexts:
            self.cache.drop(key)
        for path in (*self.leftovers, *self.kernels, *self.refusals):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        sessions = SessionCache(self.cache)
        for key in self.sessions:
            sessions.drop(key)


def clearing_of(
    cache: EpContextCache, *, ep: str | None = None, most_nbytes: int | None = None
) -> CacheClearing:
    """Find what to delete: the contexts of one EP, all, or the least recently used beyond a size.

    Compiled kernels are deleted with all contexts of LLVMExecutionProvider, but not with
    ``most_nbytes``, since they have a limit of their own. Damaged and half-written files are
    deleted unless ``ep`` is given; refusals are kept with ``most_nbytes``.
    """
    damaged = [damaged_entry.key for damaged_entry in damaged_entries(cache)] if ep is None else []
    entries = cache.entries() if most_nbytes is None else cache.beyond(most_nbytes)
    chosen = (entry.key for entry in entries if ep is None or entry.descriptor.ep == ep)
    contexts = tuple(dict.fromkeys((*damaged, *chosen)))
    leftovers = find_leftovers(cache.directory) if ep is None else []
    refusals = () if most_nbytes is not None else kept_refusals(cache.directory)
    kernels = cache.kernels if most_nbytes is None and ep in (None, LLVM_EP) else None
    return CacheClearing(
        cache=cache,
        contexts=contexts,
        damaged=len(damaged),
        leftovers=tuple(leftover.path for leftover in leftovers),
        kernels=() if kernels is None else tuple(kernels.files()),
        refusals=tuple(path for path, named in refusals if ep is None or named == ep),
        sessions=tuple(SessionCache(cache).outdated(missing=contexts)),
    )
