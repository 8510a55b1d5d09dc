"""What sessions of a group share: one binary being made, and loaded contexts in use.

Source: the EPContext design, "EPContext with weight sharing". There is one workspace per execution
provider in a process. An empty one means that the next session of a group is a first one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.ep_context.context_file_writing import (
    context_chunks,
    create_context_file,
    offset_past_index,
)
from ortpkg.ep_context.context_form import ContextForm, ContextSource
from ortpkg.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.errors import EpContextError, quoted
from ortpkg.storage.file_stamp import FileStamp, file_stamp

_log = logging.getLogger(__name__)

#: Makes the contexts of a whole group out of those that its sessions made; the first part of the
#: first entry will begin at the offset, if it is a weightless one's.
FinishGroup = Callable[[Sequence[ContextEntry], int], Sequence[ContextEntry]]


@dataclass(slots=True)
class _Binary:
    """The binary of a group while it grows."""

    path: Path
    form: ContextForm | None = None
    entries: dict[str, ContextEntry] = field(default_factory=dict)
    #: Files of the context models that name it, as they were when they had been written.
    files: dict[Path, FileStamp | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """A session group whose binary was written, while the model of its last session is not.

    Attributes:
        binary: of the group.
        is_new: whether it was not there before.
        files: of the context models of the earlier sessions, as they were when they had been
            written.
    """

    binary: Path
    is_new: bool
    files: Mapping[Path, FileStamp | None]

    def remove(self) -> tuple[Path, ...]:
        """Remove it: its last session failed, so that nothing of it is to stay.

        Returns what was removed.
        """
        if self.is_new:
            self.binary.unlink(missing_ok=True)
        return (*([self.binary] if self.is_new else []), *_remove_unchanged(self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedGroup:
    """A session group that came to nothing.

    Attributes:
        binary: what was never written.
        removed: context models, and their files of initializers, that named it.
    """

    binary: Path
    removed: tuple[Path, ...]


@dataclass(slots=True)
class _Loaded:
    """A loaded binary: what the file was then, and its contexts that nobody took yet."""

    source: ContextSource
    names: set[str]
    stamp: FileStamp | None


class EpContextWorkspace:
    """The shared workspace of one execution provider. Safe to use from several threads.

    A group of sessions that generate is bounded by ``ep.stop_share_ep_contexts``; sessions that
    infer take contexts out until none is left, in any order, and may close in any order: what they
    took is theirs.
    """

    def __init__(self, ep_name: str) -> None:
        self._ep_name = ep_name
        self._lock = threading.Lock()
        self._growing: _Binary | None = None
        self._loaded: dict[Path, _Loaded] = {}

    # --- generation -------------------------------------------------------------------------------

    def add(
        self, path: Path, entries: Sequence[ContextEntry], *, form: ContextForm | None = None
    ) -> Path:
        """Add what a session compiled; return the group's binary, as its first session named it.

        ``form``: in which the binary is written; None for ortpkg's own. What the group's first
        session says holds for all.

        Raises EpContextError where another model of the group has a partition of the same name.
        """
        with self._lock:
            if self._growing is None:
                self._growing = _Binary(path, form)
            for entry in entries:
                if entry.name in self._growing.entries:
                    raise EpContextError(
                        f"two models of the group have a partition {quoted(entry.name)}: give each"
                        " a prefix of its own",
                        ep_name=self._ep_name,
                        partition_name=entry.name,
                    )
                self._growing.entries[entry.name] = entry
            return self._growing.path

    def binary_path(self, path: Path) -> Path:
        """Where the group's binary will be: as its first session named it, or at ``path``."""
        with self._lock:
            return path if self._growing is None else self._growing.path

    def stop(self, finish: FinishGroup | None = None) -> WrittenGroup | None:
        """Write the group's binary and clears the workspace. None where nothing was compiled.

        Whoever called it removes what comes back, where the session fails after all.

        Args:
            finish: what the EP does with the contexts once all are there; by default nothing.
        """
        with self._lock:
            growing = self._growing
            if growing is None:
                return None
            entries: Sequence[ContextEntry] = list(growing.entries.values())
            chunks = self._chunks(growing.form, entries, finish)
            is_new = create_context_file(growing.path, self._ep_name, chunks)
            self._growing = None
        return WrittenGroup(binary=growing.path, is_new=is_new, files=growing.files)

    def _chunks(
        self, form: ContextForm | None, entries: Sequence[ContextEntry], finish: FinishGroup | None
    ) -> Callable[[], Iterator[Part]]:
        """What the binary consists of. In another form than ours each context is as it was made."""
        if form is not None:
            return lambda: form.chunks(entries)
        first_offset = offset_past_index(entries)
        finished = entries if finish is None else finish(entries, first_offset)
        is_placed = any(entry.descriptor.weights_source for entry in finished)
        return lambda: context_chunks(
            self._ep_name, finished, first_offset=first_offset if is_placed else 0
        )

    def add_model(self, files: Sequence[Path]) -> None:
        """Note the files of a context model that names the group's binary.

        Does nothing where that is written already.
        """
        with self._lock:
            if self._growing is not None:
                self._growing.files.update({path: file_stamp(path) for path in files})

    def abandon(self) -> AbandonedGroup | None:
        """Clear what was compiled and never written, because a session of the group failed.

        The next session begins a group anew.

        Context models of the group, which name a binary that will never be, are removed, where they
        are as they were written. None where no group was under way.
        """
        with self._lock:
            growing, self._growing = self._growing, None
        if growing is None:
            return None
        return AbandonedGroup(binary=growing.path, removed=_remove_unchanged(growing.files))

    # --- inference --------------------------------------------------------------------------------

    def take(self, path: Path, name: str, load: Callable[[Path], ContextSource]) -> ContextEntry:
        """The context of a partition, out of the workspace if an earlier session left it there.

        Where there is none, the file is loaded, and all its other contexts are left for the
        sessions to come.

        Raises EpContextError where the file has no such context or is damaged.
        """
        with self._lock:
            loaded = self._left(path)
            if loaded is None or name not in loaded.names:
                stamp = file_stamp(path)
                source = load(path)
                loaded = _Loaded(source, set(source.names), stamp)
            # Only what is asked for is compared with its digest: a stranger's index may lead to one
            # place many times.
            found = loaded.source.entry(name)
            loaded.names.discard(name)
            self._loaded[path] = loaded
            if not loaded.names:
                del self._loaded[path]
            return found

    def holds(self, path: Path, name: str) -> bool:
        """Whether the context of that partition of the file at ``path`` waits to be taken."""
        with self._lock:
            loaded = self._left(path)
            return loaded is not None and name in loaded.names

    def _left(self, path: Path) -> _Loaded | None:
        """What waits to be taken of the file.

        None where nothing does, or another file has taken its place.
        """
        loaded = self._loaded.get(path)
        if loaded is not None and file_stamp(path) not in (None, loaded.stamp):
            del self._loaded[path]
            return None
        return loaded

    def clear(self) -> None:
        """Forget loaded contexts that no session has taken."""
        with self._lock:
            self._loaded.clear()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is being compiled into it and nothing waits to be taken."""
        with self._lock:
            return self._growing is None and not self._loaded


def _remove_unchanged(files: Mapping[Path, FileStamp | None]) -> tuple[Path, ...]:
    """Remove the files that are as they were; return which."""
    removed = []
    for path, stamp in files.items():
        if stamp is not None and file_stamp(path) == stamp:
            with suppress(OSError):
                path.unlink()
                removed.append(path)
    return tuple(removed)


_WORKSPACES: dict[str, EpContextWorkspace] = {}
_WORKSPACES_LOCK = threading.Lock()


def shared_workspace(ep_name: str) -> EpContextWorkspace:
    """The process's workspace of that execution provider."""
    with _WORKSPACES_LOCK:
        return _WORKSPACES.setdefault(ep_name, EpContextWorkspace(ep_name))


def abandon_groups(ep_names: Iterable[str], reason: BaseException) -> list[AbandonedGroup]:
    """Give up these execution providers' unfinished groups, and log what that removed."""
    found = []
    for name in ep_names:
        group = shared_workspace(name).abandon()
        if group is None:
            continue
        found.append(group)
        _log.warning(
            "the session group of %s is given up, and %s never written: a session of it failed"
            " (%s); removed: %s",
            name,
            quoted(group.binary),
            reason,
            ", ".join(quoted(path) for path in group.removed) or "nothing",
        )
    return found
