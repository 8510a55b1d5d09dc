"""The cache of contexts as one provider of a session uses it: to find, or keep, a partition.

Of processes that need the same partition at once, one compiles it while the others wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ortpkg.ep_context.cache_outcome import CacheOutcome, cache_outcome
from ortpkg.ep_context.ep_context_cache import EpContextCache, context_key
from ortpkg.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.ep_context.ep_context_options import EpContextOptions
from ortpkg.errors import LimitExceededError
from ortpkg.host.signal_handlers import pass_on_handlers_error
from ortpkg.providers.compiled_partition import CompiledPartition, arity_of
from ortpkg.providers.execution_provider import FusedNode
from ortpkg.providers.native_library import first_line

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptContext:
    """A partition of a session that is in the cache of contexts.

    Attributes:
        key: of the entry.
        partition_name: its name there.
        source: as EPContext nodes of the provider have it.
    """

    key: str
    partition_name: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCache:
    """The cache of one provider.

    Attributes:
        ep_name: of the provider.
        source: as its EPContext nodes have it.
        cache: where contexts lie.
        options: the session's.
        outcomes: gets what the cache had, one outcome per partition.
        kept: gets what of the session is in the cache, by the name of the fused node.
    """

    ep_name: str
    source: str
    cache: EpContextCache
    options: EpContextOptions
    outcomes: list[CacheOutcome]
    kept: dict[str, KeptContext]

    @property
    def only_explains(self) -> bool:
        """Whether the session only says what the cache has."""
        return self.options.only_explains_cache

    def once(
        self,
        descriptor: ContextDescriptor,
        find: Callable[[bool], _T | None],
        make: Callable[[], _T],
    ) -> _T:
        """What ``find`` finds, else ``make`` makes, in one process for all that need it.

        ``find`` is told whether the lock is held: then it may delete what is damaged.
        """
        found = find(False)
        if found is not None:
            return found
        options = self.options
        with self.cache.lock(
            descriptor, limit_s=options.wait_limit_s, check_cancelled=options.check_cancelled
        ):
            found = find(True)  # another process may have made it meanwhile
            return make() if found is None else found

    def note_outcome(self, descriptor: ContextDescriptor, fused: FusedNode) -> None:
        """Notes what the cache has for the partition."""
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
        """The partition, loaded.

        None where the cache does not have it, or has something else in its place.
        """
        entry = self.cache.read(descriptor, drops=is_locked)
        if entry is None:
            return None
        try:
            found = load(entry)
        except LimitExceededError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever is wrong, it can be compiled anew
            pass_on_handlers_error(error)
            if is_locked:
                _log.warning(
                    "a cached context of %s is dropped: %s", self.ep_name, first_line(error)
                )
                self.cache.drop(context_key(descriptor))
            return None
        self._note_kept(entry, fused)
        return found

    def keep(
        self,
        descriptor: ContextDescriptor,
        fused: FusedNode,
        export: Callable[[], Mapping[str, Part]],
    ) -> None:
        """Keeps what ``export`` gives of the partition.

        The log says where that is not to be had.
        """
        try:
            parts = export()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a session that cannot be kept is one all the same
            _log.warning("what %s compiled cannot be kept: %s", self.ep_name, first_line(error))
            return
        entry = ContextEntry(
            name=fused.node.name, descriptor=descriptor, parts=parts, arity=arity_of(fused)
        )
        if self.cache.write(entry, model=self._model):
            self._note_kept(entry, fused)

    def _note_kept(self, entry: ContextEntry, fused: FusedNode) -> None:
        key = context_key(entry.descriptor)
        self.kept[fused.node.name] = KeptContext(
            key=key, partition_name=entry.name, source=self.source
        )

    @property
    def _model(self) -> str:
        return str(self.options.model_path or "")
