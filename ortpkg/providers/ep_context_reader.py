"""Finds the compiled context behind an EPContext node: embedded, in a file beside the model, or left by a session.

Source: the EPContext design, inference workflow (requirements E02, E03, E36 to E40, E52, E53).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ortpkg.errors import EpContextError, ModelFileError, quoted
from ortpkg.graph.ep_context import EpContextAttributes
from ortpkg.graph.external_data import check_location
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.providers.ep_context_file import ContextEntry, ContextFile, open_context_file
from ortpkg.providers.ep_context_options import CONTEXT_FILE_PATH, EpContextOptions
from ortpkg.providers.ep_context_workspace import shared_workspace
from ortpkg.providers.mapped_context import MappedContext


class EpContextReader:
    """The contexts that one model's EPContext nodes of one execution provider lead to; files are opened once."""

    def __init__(self, ep_name: str, options: EpContextOptions, mains: Sequence[EpContextAttributes]) -> None:
        """
        Args:
            ep_name: of the execution provider.
            options: the session's.
            mains: the model's main EPContext nodes of this execution provider.
        """
        self._ep_name = ep_name
        self._options = options
        self._mains = tuple(mains)
        self._opened: dict[Path, ContextFile] = {}

    def find_entry(self, attributes: EpContextAttributes, name: str) -> ContextEntry:
        """The context of partition ``name``: the node's own, or, where it has none, the main node's that has its graph.

        Raises EpContextError (INVALID_GRAPH) where there is none, or where it is damaged or out of reach.
        """
        if attributes.main_context:
            return self._entry_of(attributes, name)
        for main in self._mains:
            if self._has(main, name):
                return self._entry_of(main, name)
        raise EpContextError(
            f"partition {quoted(name)} has main_context 0, and none of the {len(self._mains)} main EPContext nodes of "
            f"{self._ep_name} in this model has its graph",
            ep_name=self._ep_name,
            source=attributes.source,
            partition_name=name,
        )

    def _has(self, main: EpContextAttributes, name: str) -> bool:
        if main.embed_mode:
            return name in self._embedded_file(main).names
        path = self.path_of(main)
        if self._options.share and shared_workspace(self._ep_name).holds(path, name):
            return True
        return name in self._file_at(path).names

    def _entry_of(self, main: EpContextAttributes, name: str) -> ContextEntry:
        if main.embed_mode:
            return self._embedded_file(main).entry(name)
        path = self.path_of(main)
        if self._options.share:
            found = shared_workspace(self._ep_name).take(path, name, self._file_at)
            self._check_judged(found, path)
            return found
        return self._file_at(path).entry(name)

    def _embedded_file(self, main: EpContextAttributes) -> ContextFile:
        where = f"the context embedded for partition {quoted(main.partition_name)}"
        return ContextFile(memoryview(main.ep_cache_context), ep_name=self._ep_name, where=where)

    def _file_at(self, path: Path) -> ContextFile:
        if path not in self._opened:
            self._opened[path] = open_context_file(path, ep_name=self._ep_name, mapped=self._judged_at(path))
        return self._opened[path]

    def _judged_at(self, path: Path) -> MappedContext | None:
        """The file as it was judged; None where nobody judged. EpContextError where it is another one by now."""
        if self._options.judged is None:
            return None
        judged = self._options.judged.get(path)
        if judged is None or not judged.is_same:
            raise self._unjudged(path)
        return judged

    def _check_judged(self, entry: ContextEntry, path: Path) -> None:
        """Raises EpContextError where an earlier session left the context of another file than the one judged."""
        judged = self._judged_at(path)
        if judged is not None and (entry.file is None or entry.file.stamp != judged.stamp):
            raise self._unjudged(path)

    def _unjudged(self, path: Path) -> EpContextError:
        return EpContextError(
            f"the context file {quoted(path)} was replaced or changed after it had been looked at and before it was "
            f"loaded; make the session again once nobody writes there",
            ep_name=self._ep_name,
        )

    def check_file(self, path: Path) -> None:
        """Raises EpContextError where that file was judged, and is another one by now: for who opens it himself."""
        self._judged_at(path)

    def path_of(self, main: EpContextAttributes) -> Path:
        """The context's file: relative to the model's folder, and inside it (E37, E38); EpContextError where not."""
        location = main.context_path
        folder = self._options.model_folder
        if folder is None:
            raise EpContextError(
                f"the model comes from memory and its context from a file, {quoted(location)}: set {CONTEXT_FILE_PATH} "
                f"to say in which folder",
                ep_name=self._ep_name,
                source=main.source,
                partition_name=main.partition_name,
            )
        try:
            check_location(location, f"the context of partition {quoted(main.partition_name)}")
            path = folder / location
            if path.exists() and (reason := why_not_followed(path, folder, None, with_own_links=False)):
                raise ModelFileError(f"the context {quoted(location)} {reason}")
        except (ModelFileError, OSError, ValueError) as error:
            raise EpContextError(
                f"the context of partition {quoted(main.partition_name)} would be {quoted(location)}, which leaves the "
                f"model's folder",
                ep_name=self._ep_name,
                source=main.source,
                partition_name=main.partition_name,
            ) from error
        return path.resolve()
