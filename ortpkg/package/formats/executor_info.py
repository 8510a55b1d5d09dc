"""Read ``executor_info`` of a variant: options for each executor, above all onnxruntime (``ort``).

As in onnxruntime 1.31, every variant is checked when the package is opened: each payload is an
object, or the path of a JSON file in the variant's folder, which must exist; ``ort`` must be an
object whose ``model_file`` and path-valued session options are string references, and it may not
set session options that write files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import quoted
from ortpkg.package.formats.reference_reader import UNREADABLE, ReferenceReader
from ortpkg.package.package_info import Source, VariantInfo, until_nul
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathTarget
from ortpkg.package.rules import EXECUTOR_INFO, FILE_MISSING, SESSION_OPTION_FORBIDDEN

ORT = "ort"
PAYLOAD_SCHEMA = "executor_info_ort"

EXTERNAL_INITIALIZERS_FOLDER = "session.model_external_initializers_file_folder_path"
SOURCE_MODEL = "ep.context_source_model_path"
PATH_SESSION_OPTIONS = (EXTERNAL_INITIALIZERS_FOLDER, "ep.context_file_path", SOURCE_MODEL)
"""Session options whose values are string references: all of them in onnxruntime 1.29 to 1.31.

1.28 has the first two.
"""

FORBIDDEN_SESSION_OPTIONS = (
    "session.debug_layout_transformation",
    "session.collect_node_memory_stats_to_file",
    "session.enable_profiling",
    "session.optimized_model_filepath",
)
"""Session options that a package may not set, whatever their value (onnxruntime 1.31)."""


_IS_FORBIDDEN = frozenset(FORBIDDEN_SESSION_OPTIONS)
_IS_PATH = frozenset(PATH_SESSION_OPTIONS)


class ExecutorInfo(NamedTuple):
    """Options of a variant for its executors.

    The mappings may belong to the document and must not be changed.

    Attributes:
        payloads: executor → its payload, of any JSON type.
        model_path: the model for onnxruntime; None if none is named.
        session_options, provider_options: for onnxruntime; path-valued session options are
            resolved, absolute paths.
    """

    payloads: Mapping[str, Any] = EMPTY
    model_path: str | None = None
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY


NO_EXECUTOR_INFO = ExecutorInfo()
_KEY = "executor_info"


def read_executor_info(
    declared: Mapping[str, Any],
    directory: str | None,
    source: Source,
    tokens: tuple[str, ...],
    references: ReferenceReader,
) -> ExecutorInfo:
    """Read the executor info of one variant; problems go to the collector of ``references``.

    Args:
        declared: ``executor_info`` of the variant, checked against its schema.
        directory: the variant's folder; None if it has none.
        source, tokens: the place of the variant: ``tokens`` below ``source``.
        references: of the package.
    """
    payloads = declared
    documents: Mapping[str, str] = EMPTY
    if str in map(type, declared.values()):
        payloads, documents = _read_documents(
            declared, directory, source.below(*tokens), references
        )
    payloads, key = _named(payloads, source, tokens, references)
    if key is None:
        return ExecutorInfo(payloads=payloads)
    payload_source, payload_tokens = source, (*tokens, _KEY, key)
    if key in documents:
        payload_source, payload_tokens = Source(document=documents[key]), ()
    return _OrtPayloadReader(
        directory or references.root, payload_source, payload_tokens, references
    ).read(payloads[ORT], payloads)


def _named(
    payloads: Mapping[str, Any],
    source: Source,
    tokens: tuple[str, ...],
    references: ReferenceReader,
) -> tuple[Mapping[str, Any], str | None]:
    """Return the payloads by name of their executor, and the key that declares onnxruntime's.

    A name with a NUL is refused; by the rules of a release it ends there, and the first of equal
    names counts.
    """
    if "\0" not in "".join(payloads):
        return payloads, ORT if ORT in payloads else None
    if references.rules.portable_names:
        for key in (key for key in payloads if "\0" in key):
            references.report(
                EXECUTOR_INFO, f"key {quoted(key)} holds a NUL", source, *tokens, _KEY, key
            )
        return payloads, ORT if ORT in payloads else None
    keys: dict[str, str] = {}
    for key in payloads:
        keys.setdefault(until_nul(key), key)
    return {name: payloads[key] for name, key in keys.items()}, keys.get(ORT)


def _read_documents(
    declared: Mapping[str, Any], directory: str | None, source: Source, references: ReferenceReader
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read payloads that are documents of their own; return all, and executor → its document.

    Payloads that cannot be read are left out.
    """
    payloads: dict[str, Any] = {}
    documents: dict[str, str] = {}
    for executor, value in declared.items():
        if not isinstance(value, str):
            payloads[executor] = value
            continue
        document = _find_document(value, directory, source, executor, references)
        payload = (
            UNREADABLE
            if document is None
            else references.read_json(document, source, _KEY, executor)
        )
        if document is None or payload is UNREADABLE:
            continue
        payloads[executor] = payload
        documents[executor] = references.shown(document.path)
    return payloads, documents


def _find_document(
    path: str, directory: str | None, source: Source, executor: str, references: ReferenceReader
) -> PathTarget | None:
    """Find the JSON file of a payload; None, with a finding, if there is none."""
    if directory is not None:
        return references.resolve_path(path, directory, source, _KEY, executor, must_exist=True)
    message = f"names the file {quoted(path)}, but the variant has no folder"
    references.report(FILE_MISSING, message, source, _KEY, executor)
    return None


class _OrtPayloadReader:
    """Reader of ``executor_info.ort`` of one variant, which is at ``tokens`` below ``source``."""

    def __init__(
        self, base: str, source: Source, tokens: tuple[str, ...], references: ReferenceReader
    ) -> None:
        self._base = base
        self._source = source
        self._tokens = tokens
        self._references = references

    def read(self, payload: Any, payloads: Mapping[str, Any]) -> ExecutorInfo:
        if findings := check_schema(payload, PAYLOAD_SCHEMA, document=self._source.document):
            start = self._source.below(*self._tokens).pointer
            self._references.collector.extend(
                replace(finding, rule=EXECUTOR_INFO.id, pointer=start + finding.pointer)
                for finding in findings
            )
            return ExecutorInfo(payloads=payloads)
        model_file = payload.get("model_file")
        return ExecutorInfo(
            payloads=payloads,
            model_path=None if model_file is None else self._read_model(model_file),
            session_options=self._read_session_options(payload.get("session_options")),
            provider_options=self._read_options(
                "provider_options", payload.get("provider_options")
            ),
        )

    def _read_model(self, reference: str) -> str | None:
        resolved = self._references.resolve_string(
            reference, self._base, self._source, *self._tokens, "model_file"
        )
        if resolved is None:
            return None
        if resolved.kind is not PathKind.FILE and self._references.rules.complete:
            problem = "does not exist" if resolved.kind is PathKind.MISSING else "is not a file"
            message = (
                f"model file {quoted(reference)} {problem} in"
                f" {quoted(self._references.shown(self._base))}"
            )
            self._report(FILE_MISSING, message, "model_file")
        return resolved.path

    def _read_session_options(self, declared: Mapping[str, str] | None) -> Mapping[str, str]:
        options = self._read_options("session_options", declared)
        if not _IS_FORBIDDEN.isdisjoint(options) and self._references.rules.checks_option_keys:
            for key in (key for key in FORBIDDEN_SESSION_OPTIONS if key in options):
                message = f"session option {quoted(key)} writes a file"
                self._report(SESSION_OPTION_FORBIDDEN, message, "session_options", key)
        if _IS_PATH.isdisjoint(options):
            return options
        paths = {
            key: self._read_path_option(key, options[key])
            for key in PATH_SESSION_OPTIONS
            if options.get(key)
        }
        return {**options, **paths}

    def _read_path_option(self, key: str, reference: str) -> str:
        tokens = (*self._tokens, "session_options", key)
        resolved = self._references.resolve_string(reference, self._base, self._source, *tokens)
        if resolved is None:
            return ""
        is_folder = key == EXTERNAL_INITIALIZERS_FOLDER
        if (
            is_folder
            and self._references.rules.complete
            and resolved.kind is not PathKind.DIRECTORY
        ):
            message = (
                f"folder {quoted(reference)} does not exist in"
                f" {quoted(self._references.shown(self._base))}"
            )
            self._report(FILE_MISSING, message, "session_options", key)
        return resolved.path

    def _read_options(
        self, option_kind: str, options: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        if not options:
            return EMPTY
        if self._references.rules.checks_option_keys and "\0" in "".join(options):
            for key in (key for key in options if "\0" in key):
                self._report(EXECUTOR_INFO, f"key {quoted(key)} holds a NUL", option_kind, key)
        return options

    def _report(self, rule: Rule, message: str, *tokens: str) -> None:
        self._references.report(rule, message, self._source, *self._tokens, *tokens)


def data_folder_of(variant: VariantInfo) -> Path:
    """Return the folder of a variant's data files: its model's, or what its options name."""
    if option := variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER):
        return variant.directory / option
    return variant.model_path.parent if variant.model_path is not None else variant.directory
