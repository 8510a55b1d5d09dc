"""Write compiled contexts to nodes, to a binary or to a group's binary, and make the nodes.

Source: the EPContext design, generation guidelines.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ortpkg.foundations.errors import (
    CompileError,
    EpContextError,
    EpContextWriteError,
    InvalidSessionOptionError,
    printable,
    quoted,
)
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.graph.graph import Node
from ortpkg.runtime.ep_context.context_file_writing import (
    check_context_file_place,
    context_chunks,
    create_context_file,
)
from ortpkg.runtime.ep_context.context_form import ContextForm
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    is_ep_context,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_EXTERNAL_INITIALIZERS,
    CONTEXT_FILE_PATH,
    CONTEXT_FORM,
    SHARE_EP_CONTEXTS,
    EpContextOptions,
)
from ortpkg.runtime.ep_context.ep_context_workspace import (
    FinishGroup,
    WrittenGroup,
    abandon_groups,
    shared_workspace,
)

_log = logging.getLogger(__name__)

#: Most bytes of embedded contexts in one protobuf message; larger ones need a file.
MOST_EMBEDDED_NBYTES = 100 << 20


class EpContextWriter:
    """Writer of one session's contexts: collects them graph by graph, then writes the binary."""

    def __init__(
        self,
        ep_name: str,
        source: str,
        options: EpContextOptions,
        finish_group: FinishGroup | None = None,
        form: ContextForm | None = None,
    ) -> None:
        """Create a writer without contexts.

        Args:
            ep_name: name of the execution provider, after which the binary is named.
            source: key of the nodes.
            options: options of the session.
            finish_group: makes the EP's final contexts of a group before they are written.
            form: form of onnxruntime's execution provider of this name; None if unknown.
        """
        self._form = form if options.for_onnxruntime else None
        self._has_no_form = options.for_onnxruntime and form is None
        self._finish_group = finish_group
        self._ep_name = ep_name
        self._source = source
        self._options = options
        self._entries: list[ContextEntry] = []
        #: The binary that this session wrote, to be removed if its model cannot be written.
        self._written: Path | None = None
        #: The group that this session completed, to be removed likewise.
        self._written_group: WrittenGroup | None = None
        self._is_finished = False
        self._names: set[str] = set()

    def check_place(self) -> None:
        """Check before anything is compiled that the contexts can be written.

        Raises:
            EpContextWriteError: a file that is not a context file has the binary's name.
            InvalidSessionOptionError: the external initializers have the same name, contexts in an
                unknown form of onnxruntime are wanted, or a function should take those of a group.
        """
        if self._has_no_form:
            raise InvalidSessionOptionError(
                f"{CONTEXT_FORM}: how onnxruntime's {self._ep_name} keeps contexts is not known"
                " here; where onnxruntime has that execution provider, compile with it (--backend"
                " onnxruntime)",
                key=CONTEXT_FORM,
            )
        if self._options.write_data is not None and self._options.share:
            raise InvalidSessionOptionError(
                f"{SHARE_EP_CONTEXTS}: the binary of a session group is a file; no function can"
                " take it",
                key=SHARE_EP_CONTEXTS,
            )
        if self._options.embed_mode or self._options.write_data is not None:
            return
        path = self._binary_path
        if path.name.casefold() == self._options.external_initializers.casefold():
            raise InvalidSessionOptionError(
                f"{CONTEXT_EXTERNAL_INITIALIZERS}: {quoted(path.name)} is the binary of"
                f" {self._ep_name}; name another file",
                key=CONTEXT_EXTERNAL_INITIALIZERS,
            )
        if self._options.share:
            path = shared_workspace(self._ep_name).binary_path(path)
        check_context_file_place(
            path, self._ep_name, magic=MAGIC if self._form is None else self._form.magic
        )

    def keep(self, fused: Sequence[Node], entries: Sequence[ContextEntry]) -> list[Node]:
        """Take one graph's contexts; return the EPContext node of each fused node.

        An EPContext node of the source model may stand in place of a fused node: it stays as it is,
        with its context carried over. The first node of each graph is a main node, since graphs may
        be loaded in any order.

        Raises:
            EpContextError: a context is too large to be embedded, or a name is used twice.
        """
        options = self._options
        entries = [self._with_free_name(entry) for entry in entries]
        if options.embed_mode:
            payloads = self._embedded_payloads(entries)
        else:
            path = self._add_to_binary(entries)
            payloads = [self._relative(path).encode()] * len(entries)
        # onnxruntime's OpenVINO takes one node with a payload per model, which has all blobs.
        all_main = options.embed_mode == (self._form is None)
        return [
            self._context_node(node, entry, payload, is_main=number == 0 or all_main)
            for number, (node, entry, payload) in enumerate(
                zip(fused, entries, payloads, strict=True)
            )
        ]

    def _embedded_payloads(self, entries: Sequence[ContextEntry]) -> list[bytes]:
        """Return the payload of each node; "" if it is inside the first node's."""
        if self._form is None or len(entries) == 1:
            return [self._embedded(entry.name, [entry]) for entry in entries]
        return [self._embedded(entries[0].name, entries), *[b""] * (len(entries) - 1)]

    def _with_free_name(self, entry: ContextEntry) -> ContextEntry:
        """Return the entry with a unique name: carried-over contexts may have equal names."""
        name, number = entry.name, 1
        if not name.startswith(self._options.node_name_prefix):
            name = self._options.node_name_prefix + name
        stem = name
        while name in self._names:
            name, number = f"{stem}_{number}", number + 1
        self._names.add(name)
        return entry if name == entry.name else replace(entry, name=name)

    def _embedded(self, name: str, entries: Sequence[ContextEntry]) -> bytes:
        payload = b"".join(self._chunks(entries))
        if len(payload) > MOST_EMBEDDED_NBYTES:
            raise EpContextError(
                f"the context of {quoted(name)} has {len(payload)} bytes; at most"
                f" {MOST_EMBEDDED_NBYTES} are embedded in a model: set ep.context_embed_mode to 0,"
                " for a file beside it",
                ep_name=self._ep_name,
                partition_name=name,
            )
        return payload

    def finish(self) -> None:
        """Write the session's binary; only the last session of a group writes one.

        Raises:
            EpContextWriteError: it cannot be written.
        """
        if self._is_finished:
            return
        self._is_finished = True
        entries, self._entries = self._entries, []
        if entries and self._options.write_data is not None:
            self._hand_over(entries, self._options.write_data)
        elif entries and create_context_file(
            self._binary_path, self._ep_name, lambda: self._chunks(entries)
        ):
            self._written = self._binary_path
        if self._options.share and self._options.stop_share:
            self._written_group = shared_workspace(self._ep_name).stop(self._finish_group)

    def _hand_over(
        self, entries: Sequence[ContextEntry], write_data: Callable[[str, memoryview], None]
    ) -> None:
        name = self._relative(self._binary_path)
        try:
            write_data(name, memoryview(b"".join(self._chunks(entries))))
        except Exception as error:
            raise EpContextWriteError(
                f"the function that was to take the contexts of {self._ep_name}, {quoted(name)},"
                f" failed: {type(error).__name__}: {printable(error)}",
                ep_name=self._ep_name,
            ) from error

    def add_model(self, files: Sequence[Path]) -> None:
        """Record the files of the context model, which was written."""
        self._written = self._written_group = None
        if self._options.share:
            shared_workspace(self._ep_name).add_model(files)

    def abandon(self, reason: BaseException) -> None:
        """Clean up after a failed session: its binary without a model, its unfinished group.

        Nothing of a group remains, including its binary, if its last session failed before its
        model was written.
        """
        written, self._written = self._written, None
        if written is not None:
            written.unlink(missing_ok=True)
        group, self._written_group = self._written_group, None
        if group is not None:
            _log.warning(
                "the session group of %s is given up: its last session failed (%s); removed: %s",
                self._ep_name,
                reason,
                ", ".join(map(quoted, group.remove())) or "nothing",
            )
        if self._options.share:
            abandon_groups([self._ep_name], reason)

    def _chunks(self, entries: Sequence[ContextEntry]) -> Iterator[Part]:
        return (
            context_chunks(self._ep_name, entries)
            if self._form is None
            else self._form.chunks(entries)
        )

    @property
    def _binary_path(self) -> Path:
        return self._options.output_path.parent / self._options.binary_name(self._ep_name)

    def _add_to_binary(self, entries: Sequence[ContextEntry]) -> Path:
        if self._options.share:
            return shared_workspace(self._ep_name).add(self._binary_path, entries, form=self._form)
        self._entries += entries
        return self._binary_path

    def _relative(self, path: Path) -> str:
        folder = self._options.output_path.parent.absolute()
        try:
            return path.absolute().relative_to(folder).as_posix()
        except ValueError as error:
            raise EpContextError(
                f"the models of the group lie in different folders: {quoted(path)} is not below"
                f" {quoted(folder)}; set {CONTEXT_FILE_PATH} so that all go into one folder",
                ep_name=self._ep_name,
            ) from error

    def _context_node(
        self, fused: Node, entry: ContextEntry, payload: bytes, *, is_main: bool
    ) -> Node:
        descriptor, model_path = entry.descriptor, self._options.model_path
        location = EpContextAttributes(
            main_context=is_main,
            ep_cache_context=payload if is_main else b"",
            embed_mode=self._options.embed_mode,
            partition_name=entry.name,
        )
        if is_ep_context(fused):
            attributes = replace(
                ep_context_attributes(fused),
                main_context=location.main_context,
                ep_cache_context=location.ep_cache_context,
                embed_mode=location.embed_mode,
                partition_name=location.partition_name,
            )
            return attributes.node_for(fused)
        attributes = replace(
            location,
            ep_sdk_version=self._sdk_version(descriptor.sdk_version),
            onnx_model_filename=model_path.name if model_path is not None else "",
            hardware_architecture=descriptor.architecture,
            source=self._source,
            notes=json.dumps(descriptor.to_json(), sort_keys=True),
        )
        return attributes.node_for(fused)

    def _sdk_version(self, version: str) -> str:
        return version if self._form is None else self._form.sdk_version(version)


def checked_parts(parts: object, *, ep_name: str, partition_name: str) -> Mapping[str, Part]:
    """Return the parts of a context that a provider returned, unchanged.

    Raises:
        CompileError: not a mapping of names to bytes.
    """
    where = f"{ep_name} cannot keep partition {quoted(partition_name)}: export_context returned"
    if not isinstance(parts, Mapping):
        raise CompileError(
            f"{where} {type(parts).__name__}; names and bytes belong there", ep_name=ep_name
        )
    for name, part in parts.items():
        if not isinstance(name, str) or not isinstance(part, bytes | bytearray | memoryview):
            raise CompileError(
                f"{where} {type(part).__name__} under {quoted(name)}; names and bytes belong there",
                ep_name=ep_name,
            )
    return parts
