"""Find an EPContext node's context: in the node, in a file beside the model, or in the group.

Source: the EPContext design, inference workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ortpkg.foundations.errors import EpContextError, ModelFileError, printable, quoted
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.graph.external_data import check_location
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.runtime.ep_context.context_form import ContextForm, ContextSource
from ortpkg.runtime.ep_context.context_node import EpContextAttributes
from ortpkg.runtime.ep_context.ep_context_file import (
    ContextEntry,
    ContextFile,
    map_context_file,
    read_context_file,
)
from ortpkg.runtime.ep_context.ep_context_match import has_own_notes
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_FILE_PATH, EpContextOptions
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from ortpkg.runtime.ep_context.mapped_context import MappedContext


class EpContextReader:
    """Reader of the contexts of one model's EPContext nodes for one execution provider.

    Each file is opened once.
    """

    def __init__(
        self,
        ep_name: str,
        options: EpContextOptions,
        mains: Sequence[EpContextAttributes],
        form: ContextForm | None = None,
    ) -> None:
        """Create a reader for the model's nodes and files.

        Args:
            ep_name: name of the execution provider.
            options: options of the session.
            mains: main EPContext nodes of the model for this execution provider.
            form: another form than ortpkg's to read: that of onnxruntime's execution provider of
                this name.
        """
        self._form = form
        self._ep_name = ep_name
        self._options = options
        self._mains = tuple(mains)
        self._opened: dict[Path, ContextSource] = {}
        #: Location in a node → the contexts that a function of the caller returned for it.
        self._returned: dict[str, ContextSource] = {}

    def find_entry(self, attributes: EpContextAttributes, name: str) -> ContextEntry:
        """Return the context of partition ``name``, from the node or from its main node.

        Raises:
            EpContextError: INVALID_GRAPH, there is none, or it is damaged or outside of the model's
                folder.
        """
        if attributes.main_context:
            return self._entry_of(attributes, name)
        for main in self._mains:
            if self._has(main, name):
                return self._entry_of(main, name)
        raise EpContextError(
            f"partition {quoted(name)} has main_context 0, and none of the {len(self._mains)} main"
            f" EPContext nodes of {self._ep_name} in this model has its graph",
            ep_name=self._ep_name,
            source=attributes.source,
            partition_name=name,
        )

    def _has(self, main: EpContextAttributes, name: str) -> bool:
        if main.embed_mode:
            return name in self._embedded_file(main).names
        if self._options.read_data is not None:
            return name in self._returned_source(main, name, self._options.read_data).names
        path = self.path_of(main)
        if self._options.share and shared_workspace(self._ep_name).holds(path, name):
            return True
        return name in self._file_at(path, main, name).names

    def _entry_of(self, main: EpContextAttributes, name: str) -> ContextEntry:
        if main.embed_mode:
            return self._embedded_file(main).entry(name)
        if self._options.read_data is not None:
            return self._returned_source(main, name, self._options.read_data).entry(name)
        path = self.path_of(main)
        if self._options.share:
            entry = shared_workspace(self._ep_name).take(
                path, name, lambda path: self._file_at(path, main, name)
            )
            self._check_judged(entry, path)
            return entry
        return self._file_at(path, main, name).entry(name)

    def _embedded_file(self, main: EpContextAttributes) -> ContextSource:
        where = f"the context embedded for partition {quoted(main.partition_name)}"
        data = memoryview(main.ep_cache_context)
        source = self._in_other_form(data, main, main.partition_name, where)
        return ContextFile(data, ep_name=self._ep_name, where=where) if source is None else source

    def _returned_source(
        self, main: EpContextAttributes, name: str, read_data: Callable[[str], memoryview]
    ) -> ContextSource:
        """Return the contexts that a function of the caller returns for a node's location."""
        location = main.context_path
        if location not in self._returned:
            where = f"the context that the function gave for {quoted(location)}"
            try:
                data = read_data(location)
            except Exception as error:
                raise EpContextError(
                    f"the function that was to give the context {quoted(location)} failed:"
                    f" {type(error).__name__}: {printable(error)}",
                    ep_name=self._ep_name,
                    source=main.source,
                    partition_name=main.partition_name,
                ) from error
            source = self._in_other_form(data, main, name, where)
            self._returned[location] = (
                ContextFile(data, ep_name=self._ep_name, where=where) if source is None else source
            )
        return self._returned[location]

    def _file_at(self, path: Path, main: EpContextAttributes, name: str) -> ContextSource:
        if path not in self._opened:
            mapped = map_context_file(path, ep_name=self._ep_name, mapped=self._judged_at(path))
            source = self._in_other_form(
                mapped.data, main, name, f"the context file {quoted(path)}"
            )
            self._opened[path] = (
                read_context_file(mapped, ep_name=self._ep_name) if source is None else source
            )
        return self._opened[path]

    def _in_other_form(
        self, data: memoryview, main: EpContextAttributes, name: str, where: str
    ) -> ContextSource | None:
        """Return the contexts in the form of onnxruntime's provider; None if the form is ortpkg's.

        A blob of older releases has no magic bytes: it is recognized by a node without ortpkg's
        notes, which all nodes of ortpkg have. The node need not state the release of its SDK.
        """
        if self._form is None or bytes(data[: len(MAGIC)]) == MAGIC:
            return None
        if self._form.is_of(data):
            return self._form.read(data, where, name)
        is_theirs = not has_own_notes(main)
        return self._form.read_bare(data, where, name) if is_theirs and data.nbytes else None

    def _judged_at(self, path: Path) -> MappedContext | None:
        """Return the file as it was accepted; None if nothing was checked.

        Raises:
            EpContextError: the file is another one by now.
        """
        if self._options.judged is None:
            return None
        judged = self._options.judged.get(path)
        if judged is None or not judged.is_same:
            raise self._unjudged(path)
        return judged

    def _check_judged(self, entry: ContextEntry, path: Path) -> None:
        """Raise EpContextError if the context was loaded from a file that was not accepted."""
        judged = self._judged_at(path)
        if judged is not None and (entry.file is None or entry.file.stamp != judged.stamp):
            raise self._unjudged(path)

    def _unjudged(self, path: Path) -> EpContextError:
        return EpContextError(
            f"the context file {quoted(path)} was replaced or changed after it had been looked at"
            " and before it was loaded; make the session again once nobody writes there",
            ep_name=self._ep_name,
        )

    def check_judged_files(self) -> None:
        """Raise EpContextError if a file that was accepted has changed since.

        Call it before a library opens a file by its path, and after reading bytes of a mapped file:
        writing to the file changes the mapping, so that other bytes may be read than were checked.
        """
        for path in self._options.judged or ():
            self._judged_at(path)

    def path_of(self, main: EpContextAttributes) -> Path:
        """Return the path of the context's file, relative to the model's folder and inside it.

        Raises:
            EpContextError: the file would lie outside, or the model has no folder.
        """
        location = main.context_path
        folder = self._options.model_folder
        if folder is None:
            raise EpContextError(
                f"the model comes from memory and its context from a file, {quoted(location)}: set"
                f" {CONTEXT_FILE_PATH} to say in which folder",
                ep_name=self._ep_name,
                source=main.source,
                partition_name=main.partition_name,
            )
        try:
            check_location(location, f"the context of partition {quoted(main.partition_name)}")
            path = folder / location
            if path.exists() and (
                reason := why_not_followed(path, folder, None, with_own_links=False)
            ):
                raise ModelFileError(f"the context {quoted(location)} {reason}")
        except (ModelFileError, OSError, ValueError) as error:
            raise EpContextError(
                f"the context of partition {quoted(main.partition_name)} would be"
                f" {quoted(location)}, which leaves the model's folder",
                ep_name=self._ep_name,
                source=main.source,
                partition_name=main.partition_name,
            ) from error
        return path.resolve()
