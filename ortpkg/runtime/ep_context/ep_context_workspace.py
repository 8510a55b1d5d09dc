"""Workspace that the sessions of a group share: a growing binary, and loaded contexts.

Source: the EPContext design, "EPContext with weight sharing". There is one workspace per execution
provider in a process. If it is empty, the next session of a group is a first one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.runtime.ep_context.context_file_writing import (
    context_chunks,
    create_context_file,
    offset_past_index,
)
from ortpkg.runtime.ep_context.context_form import ContextForm, ContextSource
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part

_log = logging.getLogger(__name__)

#: Makes the final contexts of a group from those of its sessions. The first part of the first entry
#: will begin at the given offset if it is weightless.
FinishGroup = Callable[[Sequence[ContextEntry], int], Sequence[ContextEntry]]


@dataclass(slots=True)
class _Binary:
    """Binary of a group that is still growing."""

    path: Path
    form: ContextForm | None = None
    entries: dict[str, ContextEntry] = field(default_factory=dict)
    #: Files of the context models that name it, with their stamps after writing.
    files: dict[Path, FileStamp | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """A session group whose binary was written before the model of its last session.

    Attributes:
        binary: path of the group's binary.
        is_new: True if it did not exist before.
        files: files of the earlier sessions' context models, with their stamps after writing.
    """

    binary: Path
    is_new: bool
    files: Mapping[Path, FileStamp | None]

    def remove(self) -> tuple[Path, ...]:
        """Remove the group because its last session failed; return the removed files."""
        if self.is_new:
            self.binary.unlink(missing_ok=True)
        return (*([self.binary] if self.is_new else []), *_remove_unchanged(self.files))


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedGroup:
    """A session group that was not completed.

    Attributes:
        binary: path of the binary that was never written.
        removed: context models that named it, and their files of initializers.
    """

    binary: Path
    removed: tuple[Path, ...]


@dataclass(slots=True)
class _Loaded:
    """A loaded binary: its stamp, and the contexts that no session has taken yet."""

    source: ContextSource
    names: set[str]
    stamp: FileStamp | None


class EpContextWorkspace:
    """The shared workspace of one execution provider; safe for threads.

    ``ep.stop_share_ep_contexts`` ends a group of sessions that generate. Sessions that run take
    contexts out until none is left, in any order, and may close in any order: what they took is
    theirs.
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
        """Add a session's contexts; return the group's binary, as its first session named it.

        ``form``: form of the binary; None for ortpkg's own. The first session's form holds for all.

        Raises:
            EpContextError: another model of the group has a partition of the same name.
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
        """Return the path of the group's binary: as its first session named it, or ``path``."""
        with self._lock:
            return path if self._growing is None else self._growing.path

    def stop(self, finish: FinishGroup | None = None) -> WrittenGroup | None:
        """Write the group's binary and clear the workspace; return None if nothing was compiled.

        The caller removes the returned group if the session fails after all.

        Args:
            finish: makes the EP's final contexts once all are there; by default they stay as they
                are.
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
        """Return the content of the binary.

        In another form than ortpkg's, contexts are unchanged.
        """
        if form is not None:
            return lambda: form.chunks(entries)
        first_offset = offset_past_index(entries)
        finished = entries if finish is None else finish(entries, first_offset)
        is_placed = any(entry.descriptor.weights_source for entry in finished)
        return lambda: context_chunks(
            self._ep_name, finished, first_offset=first_offset if is_placed else 0
        )

    def add_model(self, files: Sequence[Path]) -> None:
        """Record the files of a context model that names the group's binary.

        Does nothing if the binary is written already.
        """
        with self._lock:
            if self._growing is not None:
                self._growing.files.update({path: file_stamp(path) for path in files})

    def abandon(self) -> AbandonedGroup | None:
        """Drop compiled contexts that were never written, because a session of the group failed.

        The next session begins a new group. Context models of the group, whose binary will never
        exist, are removed unless they were changed. Return None if no group was under way.
        """
        with self._lock:
            growing, self._growing = self._growing, None
        if growing is None:
            return None
        return AbandonedGroup(binary=growing.path, removed=_remove_unchanged(growing.files))

    # --- inference --------------------------------------------------------------------------------

    def take(self, path: Path, name: str, load: Callable[[Path], ContextSource]) -> ContextEntry:
        """Return a partition's context, from the workspace if an earlier session left it there.

        Otherwise the file is loaded, and all its other contexts are left for later sessions.

        Raises:
            EpContextError: the file has no such context or is damaged.
        """
        with self._lock:
            loaded = self._waiting(path)
            if loaded is None or name not in loaded.names:
                stamp = file_stamp(path)
                source = load(path)
                loaded = _Loaded(source, set(source.names), stamp)
            # Only the requested context is compared with its digest: an untrusted index may refer
            # to one blob many times.
            entry = loaded.source.entry(name)
            loaded.names.discard(name)
            self._loaded[path] = loaded
            if not loaded.names:
                del self._loaded[path]
            return entry

    def holds(self, path: Path, name: str) -> bool:
        """Return True if the context of this partition of the file waits to be taken."""
        with self._lock:
            loaded = self._waiting(path)
            return loaded is not None and name in loaded.names

    def _waiting(self, path: Path) -> _Loaded | None:
        """Return the contexts of a file that wait to be taken.

        None if there are none, or another file has replaced it.
        """
        loaded = self._loaded.get(path)
        if loaded is not None and file_stamp(path) not in (None, loaded.stamp):
            del self._loaded[path]
            return None
        return loaded

    def clear(self) -> None:
        """Drop loaded contexts that no session has taken."""
        with self._lock:
            self._loaded.clear()

    @property
    def is_empty(self) -> bool:
        """True if nothing is being compiled into it and nothing waits to be taken."""
        with self._lock:
            return self._growing is None and not self._loaded


def _remove_unchanged(files: Mapping[Path, FileStamp | None]) -> tuple[Path, ...]:
    """Remove the files that have not changed; return these."""
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
    """Return the process's workspace of an execution provider."""
    with _WORKSPACES_LOCK:
        return _WORKSPACES.setdefault(ep_name, EpContextWorkspace(ep_name))


def abandon_groups(ep_names: Iterable[str], reason: BaseException) -> list[AbandonedGroup]:
    """Abandon the unfinished groups of these execution providers, and log what was removed."""
    groups = []
    for name in ep_names:
        group = shared_workspace(name).abandon()
        if group is None:
            continue
        groups.append(group)
        _log.warning(
            "the session group of %s is given up, and %s never written: a session of it failed"
            " (%s); removed: %s",
            name,
            quoted(group.binary),
            reason,
            ", ".join(quoted(path) for path in group.removed) or "nothing",
        )
    return groups
