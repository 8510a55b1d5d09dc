"""Reads ``executor_info`` of a variant: what each executor needs, and above all ``ort``, onnxruntime's own part.

As onnxruntime 1.31 does, for every variant when the package is opened: each payload is an object, or the path of a JSON
file in the variant's folder, which must be there; ``ort`` must be an object whose ``model_file`` and two path-valued
session options are string references, and it may not set session options that write files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.errors import quoted
from ortpkg.package.findings import json_pointer
from ortpkg.package.frozen import EMPTY, FrozenMapping, freeze
from ortpkg.package.package_info import Source
from ortpkg.package.path_resolver import PathKind
from ortpkg.package.reference_reader import UNREADABLE, ReferenceReader
from ortpkg.package.rules import EXECUTOR_INFO, FILE_MISSING, SESSION_OPTION_FORBIDDEN
from ortpkg.package.schemas import check_schema

ORT = "ort"

EXTERNAL_INITIALIZERS_FOLDER = "session.model_external_initializers_file_folder_path"
PATH_SESSION_OPTIONS = (EXTERNAL_INITIALIZERS_FOLDER, "ep.context_file_path")
"""Session options whose values are string references; exactly these two (onnxruntime 1.28 to 1.31)."""

FORBIDDEN_SESSION_OPTIONS = (
    "session.debug_layout_transformation",
    "session.collect_node_memory_stats_to_file",
    "session.enable_profiling",
    "session.optimized_model_filepath",
)
"""Session options that a package may not set, whatever their value (onnxruntime 1.31)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorInfo:
    """What a variant's executors need.

    Attributes:
        payloads: executor → its payload, of any JSON type.
        model_path: the model for onnxruntime; None where none is named.
        session_options, provider_options: for onnxruntime; path-valued session options are resolved, absolute paths.
    """

    payloads: FrozenMapping[Any] = EMPTY
    model_path: Path | None = None
    session_options: FrozenMapping[str] = EMPTY
    provider_options: FrozenMapping[str] = EMPTY


NO_EXECUTOR_INFO = ExecutorInfo()


def read_executor_info(
    declared: Mapping[str, Any], directory: str | None, source: Source, references: ReferenceReader
) -> ExecutorInfo:
    """The executor info of one variant; what is wrong is added to the findings of ``references``.

    Args:
        declared: ``executor_info`` as it stands in the variant, which keeps its schema.
        directory: the variant's folder; None where there is none.
        source: where ``declared`` stands.
        references: of the package.
    """
    payloads: dict[str, Any] = {}
    for executor, value in declared.items():
        place = replace(source, pointer=source.pointer + json_pointer(executor))
        payload = _read_external(value, directory, place, references) if isinstance(value, str) else value
        if payload is not UNREADABLE:
            payloads[executor] = payload
    if ORT not in payloads:
        return ExecutorInfo(payloads=freeze(payloads))
    inline = not isinstance(declared[ORT], str)
    place = replace(source, pointer=source.pointer + json_pointer(ORT)) if inline else source
    read = _OrtPayloadReader(directory or references.root, place, references).read(payloads[ORT])
    return replace(read, payloads=freeze(payloads))


def _read_external(path: str, directory: str | None, source: Source, references: ReferenceReader) -> Any:
    if directory is None:
        message = f"names the file {quoted(path)}, but the variant has no folder"
        references.found.add(FILE_MISSING, source.document, message, pointer=source.pointer)
        return UNREADABLE
    place = references.resolve_path(path, directory, source, must_exist=True)
    return UNREADABLE if place is None else references.read_json(place, source)


class _OrtPayloadReader:
    """Reads ``executor_info.ort`` of one variant."""

    def __init__(self, base: str, source: Source, references: ReferenceReader) -> None:
        self._base = base
        self._source = source
        self._references = references

    def read(self, payload: Any) -> ExecutorInfo:
        findings = check_schema(
            payload, "executor_info_ort", document=self._source.document, pointer=self._source.pointer
        )
        if findings:
            self._references.found.extend(replace(each, rule=EXECUTOR_INFO.id) for each in findings)
            return NO_EXECUTOR_INFO
        provider_options = payload.get("provider_options", EMPTY)
        self._check_keys("provider_options", provider_options)
        return ExecutorInfo(
            model_path=self._read_model(payload["model_file"]) if "model_file" in payload else None,
            session_options=FrozenMapping(self._read_session_options(payload.get("session_options", EMPTY))),
            provider_options=FrozenMapping(provider_options),
        )

    def _read_model(self, reference: str) -> Path | None:
        source = self._below("model_file")
        place = self._references.resolve_string(reference, self._base, source)
        if place is None:
            return None
        if self._references.rules.complete and place.kind is not PathKind.FILE:
            what = "does not exist" if place.kind is PathKind.MISSING else "is not a file"
            message = f"model file {quoted(reference)} {what} in {quoted(self._references.shown(self._base))}"
            self._references.found.add(FILE_MISSING, source.document, message, pointer=source.pointer)
        return Path(place.path)

    def _read_session_options(self, declared: Mapping[str, str]) -> dict[str, str]:
        self._check_keys("session_options", declared)
        options = dict(declared)
        for key in FORBIDDEN_SESSION_OPTIONS:
            if key in options:
                source = self._below("session_options", key)
                message = f"session option {quoted(key)} writes a file"
                self._references.found.add(SESSION_OPTION_FORBIDDEN, source.document, message, pointer=source.pointer)
        for key in PATH_SESSION_OPTIONS:
            if options.get(key):
                options[key] = self._read_path_option(key, options[key])
        return options

    def _read_path_option(self, key: str, reference: str) -> str:
        source = self._below("session_options", key)
        place = self._references.resolve_string(reference, self._base, source)
        if place is None:
            return ""
        is_folder = key == EXTERNAL_INITIALIZERS_FOLDER
        if is_folder and self._references.rules.complete and place.kind is not PathKind.DIRECTORY:
            message = f"folder {quoted(reference)} does not exist in {quoted(self._references.shown(self._base))}"
            self._references.found.add(FILE_MISSING, source.document, message, pointer=source.pointer)
        return place.path

    def _check_keys(self, what: str, options: Mapping[str, str]) -> None:
        for key in options:
            if "\0" in key:
                source = self._below(what, key)
                message = f"key {quoted(key)} holds a NUL"
                self._references.found.add(EXECUTOR_INFO, source.document, message, pointer=source.pointer)

    def _below(self, *tokens: str) -> Source:
        return replace(self._source, pointer=self._source.pointer + json_pointer(*tokens))
