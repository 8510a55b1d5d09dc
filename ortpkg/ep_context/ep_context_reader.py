"""Find an EPContext node's context: in the node, in a file beside the model, or in the group.

Source: the EPContext design, inference workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ortpkg.ep_context.context_form import ContextForm, ContextSource
from ortpkg.ep_context.context_node import EpContextAttributes
from ortpkg.ep_context.ep_context_file import (
    MAGIC,
    ContextEntry,
    ContextFile,
    map_context_file,
    read_context_file,
)
from ortpkg.ep_context.ep_context_match import has_own_notes
from ortpkg.ep_context.ep_context_options import CONTEXT_FILE_PATH, EpContextOptions
from ortpkg.ep_context.ep_context_workspace import shared_workspace
from ortpkg.ep_context.mapped_context import MappedContext
from ortpkg.errors import EpContextError, ModelFileError, printable, quoted
from ortpkg.graph.external_data import check_location
from ortpkg.graph.linked_files import why_not_followed


class EpContextReader:
    """The contexts that one model's EPContext nodes of one execution provider lead to.

    Each file is opened once.
    """

    def __init__(
        self,
        ep_name: str,
        options: EpContextOptions,
        mains: Sequence[EpContextAttributes],
        form: ContextForm | None = None,
    ) -> None:
        """Look among the model's own nodes and files.

        Args:
            ep_name: of the execution provider.
            options: the session's.
            mains: the model's main EPContext nodes of this execution provider.
            form: another form than ortpkg's that is read: that of onnxruntime's execution provider
                of the name.
        """
        self._form = form
        self._ep_name = ep_name
        self._options = options
        self._mains = tuple(mains)
        self._opened: dict[Path, ContextSource] = {}
        #: Location that a node states → what a function of the caller's gave for it.
        self._asked: dict[str, ContextSource] = {}

    def find_entry(self, attributes: EpContextAttributes, name: str) -> ContextEntry:
        """The context of partition ``name``: the node's, or that of the main node with its graph.

        Raises EpContextError (INVALID_GRAPH) where there is none, or where it is damaged or out of
        reach.
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
            return name in self._given(main, name, self._options.read_data).names
        path = self.path_of(main)
        if self._options.share and shared_workspace(self._ep_name).holds(path, name):
            return True
        return name in self._file_at(path, main, name).names

    def _entry_of(self, main: EpContextAttributes, name: str) -> ContextEntry:
        if main.embed_mode:
            return self._embedded_file(main).entry(name)
        if self._options.read_data is not None:
            return self._given(main, name, self._options.read_data).entry(name)
        path = self.path_of(main)
        if self._options.share:
            found = shared_workspace(self._ep_name).take(
                path, name, lambda path: self._file_at(path, main, name)
            )
            self._check_judged(found, path)
            return found
        return self._file_at(path, main, name).entry(name)

    def _embedded_file(self, main: EpContextAttributes) -> ContextSource:
        where = f"the context embedded for partition {quoted(main.partition_name)}"
        data = memoryview(main.ep_cache_context)
        found = self._in_other_form(data, main, main.partition_name, where)
        return ContextFile(data, ep_name=self._ep_name, where=where) if found is None else found

    def _given(
        self, main: EpContextAttributes, name: str, read_data: Callable[[str], memoryview]
    ) -> ContextSource:
        """The contexts that a function of the caller's gives for what a node names."""
        location = main.context_path
        if location not in self._asked:
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
            found = self._in_other_form(data, main, name, where)
            self._asked[location] = (
                ContextFile(data, ep_name=self._ep_name, where=where) if found is None else found
            )
        return self._asked[location]

    def _file_at(self, path: Path, main: EpContextAttributes, name: str) -> ContextSource:
        if path not in self._opened:
            mapped = map_context_file(path, ep_name=self._ep_name, mapped=self._judged_at(path))
            found = self._in_other_form(mapped.data, main, name, f"the context file {quoted(path)}")
            self._opened[path] = (
                read_context_file(mapped, ep_name=self._ep_name) if found is None else found
            )
        return self._opened[path]

    def _in_other_form(
        self, data: memoryview, main: EpContextAttributes, name: str, where: str
    ) -> ContextSource | None:
        """The contexts of onnxruntime's provider.

        None where they are ortpkg's own, or this node says that they were.

        A blob as older releases kept it has no sign of its own: it is one where the node has no
        notes of ours, which all nodes of ours have. The release of its SDK, the node may leave out.
        """
        if self._form is None or bytes(data[: len(MAGIC)]) == MAGIC:
            return None
        if self._form.is_of(data):
            return self._form.read(data, where, name)
        is_theirs = not has_own_notes(main)
        return self._form.read_bare(data, where, name) if is_theirs and data.nbytes else None

    def _judged_at(self, path: Path) -> MappedContext | None:
        """The file as it was judged; None where nobody judged.

        EpContextError where it is another one by now.
        """
        if self._options.judged is None:
            return None
        judged = self._options.judged.get(path)
        if judged is None or not judged.is_same:
            raise self._unjudged(path)
        return judged

    def _check_judged(self, entry: ContextEntry, path: Path) -> None:
        """Raise EpContextError if an earlier session left the context of a file not judged."""
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
        """Raise EpContextError if a file that was judged has changed since.

        Call it before a library opens a file by its path, and after reading bytes of a mapped file:
        a write into the file changes the mapping, so that other bytes are read than were judged.
        """
        for path in self._options.judged or ():
            self._judged_at(path)

    def path_of(self, main: EpContextAttributes) -> Path:
        """The context's file: relative to the model's folder, and inside it.

        EpContextError where it would lie outside, or the model has no folder.
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
