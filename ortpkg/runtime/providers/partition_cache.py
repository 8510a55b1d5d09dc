"""Cache of contexts for one provider of a session, which finds or keeps partitions in it.

If several processes need the same partition at once, one compiles it while the others wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome, cache_outcome
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache, context_key
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.ep_context.ep_context_options import EpContextOptions
from ortpkg.runtime.providers.compiled_partition import CompiledPartition, arity_of
from ortpkg.runtime.providers.execution_provider import FusedNode
from ortpkg.runtime.providers.native_library import first_line

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPartition:
    """Partition of a session that is in the cache of contexts.

    Attributes:
        key: key of the entry.
        partition_name: its name in the entry.
        source: ``source`` of the provider's EPContext nodes.
    """

    key: str
    partition_name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCache:
    """Cache of one provider.

    Attributes:
        ep_name: name of the provider.
        source: ``source`` of its EPContext nodes.
        cache: folder of contexts.
        options: the session's options about contexts.
        outcomes: list to which one outcome per partition is added.
        cached_partitions: dictionary to which the session's partitions in the cache are added, by
            the name of the fused node.
    """

    ep_name: str
    source: str
    cache: EpContextCache
    options: EpContextOptions
    outcomes: list[CacheOutcome]
    cached_partitions: dict[str, CachedPartition]

    @property
    def only_explains(self) -> bool:
        """True if the session only explains what the cache holds."""
        return self.options.only_explains_cache

    def once(
        self,
        descriptor: ContextDescriptor,
        find: Callable[[bool], _T | None],
        make: Callable[[], _T],
    ) -> _T:
        """Return the result of ``find``, else of ``make``, in one process for all that need it.

        ``find`` takes True if the lock is held: then it may delete a damaged entry.
        """
        result = find(False)
        if result is not None:
            return result
        options = self.options
        with self.cache.lock(
            descriptor, limit_s=options.wait_limit_s, check_cancelled=options.check_cancelled
        ):
            result = find(True)  # another process may have made it meanwhile
            return make() if result is None else result

    def note_outcome(self, descriptor: ContextDescriptor, fused: FusedNode) -> None:
        """Note what the cache holds for the partition."""
        outcome = cache_outcome(
            self.cache,
            descriptor,
            partition=fused.node.name,
            model=self._model,
            is_checked=self.only_explains,
        )
        self.outcomes.append(outcome)

    def find(
        self,
        descriptor: ContextDescriptor,
        fused: FusedNode,
        load: Callable[[ContextEntry], CompiledPartition],
        *,
        is_locked: bool,
    ) -> CompiledPartition | None:
        """Return the partition, loaded.

        None if the cache does not have it, or has something else in its place.
        """
        entry = self.cache.read(descriptor, drops=is_locked)
        if entry is None:
            return None
        try:
            partition = load(entry)
        except LimitExceededError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it can be compiled anew
            pass_on_handlers_error(error)
            if is_locked:
                _log.warning(
                    "a cached context of %s is dropped: %s", self.ep_name, first_line(error)
                )
                self.cache.drop(context_key(descriptor))
            return None
        self._note_kept(entry, fused)
        return partition

    def keep(
        self,
        descriptor: ContextDescriptor,
        fused: FusedNode,
        export: Callable[[], Mapping[str, Part]],
    ) -> None:
        """Keep the parts of the partition that ``export`` returns; log why if it fails."""
        try:
            parts = export()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the session works all the same
            _log.warning("what %s compiled cannot be kept: %s", self.ep_name, first_line(error))
            return
        entry = ContextEntry(
            name=fused.node.name, descriptor=descriptor, parts=parts, arity=arity_of(fused)
        )
        if self.cache.write(entry, model=self._model):
            self._note_kept(entry, fused)

    def _note_kept(self, entry: ContextEntry, fused: FusedNode) -> None:
        key = context_key(entry.descriptor)
        self.cached_partitions[fused.node.name] = CachedPartition(
            key=key, partition_name=entry.name, source=self.source
        )

    @property
    def _model(self) -> str:
        return str(self.options.model_path or "")
