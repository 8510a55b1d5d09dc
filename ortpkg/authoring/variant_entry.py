"""One variant as documents state it, written for each generation of the format.

One description gives two bodies: :func:`metadata_body` for ``model_variants`` (onnxruntime 1.26,
1.27) and :func:`component_body` for ``variants`` (1.28 on). Facts without a key in the component
generation go to ``additional_metadata.ortpkg``, since a strict reader refuses unknown keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ortpkg.foundations.documents.frozen import EMPTY, thaw
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS, ORT
from ortpkg.package.formats.variant_declarations import sanitize_model_id
from ortpkg.package.package_info import Constraints, PackageFormat

CONSTRAINTS = ("ep", "device", "architecture", "ep_compatibility_info")
"""Keys of ``constraints`` in the metadata generation, in the order in which they are written."""

_CPU_DEVICE = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantEntry:
    """One variant as documents state it, whatever their format.

    Attributes:
        model_file: relative to the variant's folder; None for a set of files (GenAI).
        constraints: its requirements.
        session_options, provider_options: as a document states them, paths not resolved.
        metadata: facts.
        model_id: name of its folder (see ``sanitize_model_id``); None for the variant's name.
        directory: its folder relative to the component's, if it differs in the component
            generation.
        additional_metadata: opaque, without ortpkg's own facts.
        executor_info: payloads of executors other than onnxruntime; opaque.
        ort_payload: unknown keys of ``executor_info.ort``.
        other_constraints, other_keys: keys of ``constraints``, or of the variant, that no
            generation has.
    """

    model_file: str | None
    constraints: Constraints = field(default_factory=Constraints)
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY
    metadata: Mapping[str, Any] = EMPTY
    model_id: str | None = None
    directory: str | None = None
    additional_metadata: Any = None
    executor_info: Mapping[str, Any] = EMPTY
    ort_payload: Mapping[str, Any] = EMPTY
    other_constraints: Mapping[str, Any] = EMPTY
    other_keys: Mapping[str, Any] = EMPTY


def metadata_body(
    entry: VariantEntry, *, form: PackageFormat, file_key: str = "model_file"
) -> dict[str, Any]:
    """Return the variant for ``model_variants``.

    ``file_key`` is ``file`` in packages of the pull request's drafts. With a list ``variants``,
    options stand only there: onnxruntime 1.26 and 1.27 do not know them, and a path among them
    would have two meanings. ``executor_info`` is kept for readers that know it.
    """
    is_alone = form is PackageFormat.METADATA
    constraints = {
        key: value for key in CONSTRAINTS if (value := getattr(entry.constraints, key)) is not None
    } | thaw(entry.other_constraints)
    parts: dict[str, Any] = {
        "model_id": entry.model_id,
        file_key: entry.model_file,
        "constraints": constraints,
        "session_options": thaw(entry.session_options) if is_alone else None,
        "provider_options": thaw(entry.provider_options) if is_alone else None,
        "executor_info": _others_executor_info(entry) if is_alone else None,
        "metadata": thaw(entry.metadata),
    }
    body = {key: value for key, value in parts.items() if value}
    body |= (
        {}
        if entry.additional_metadata is None
        else {"additional_metadata": thaw(entry.additional_metadata)}
    )
    return body | {key: thaw(value) for key, value in entry.other_keys.items() if key not in body}


def component_body(entry: VariantEntry, *, with_facts: bool) -> dict[str, Any]:
    """Return the variant for ``variants``.

    ``with_facts``: nothing else describes it, so ortpkg's facts are needed here. ``device`` is left
    out on the CPU: onnxruntime 1.28 to 1.31 capture CPUExecutionProvider without hardware devices,
    and never select a variant of it that states one.

    Raises:
        AuthoringError: a session option is forbidden in this generation.
    """
    for key in FORBIDDEN_SESSION_OPTIONS:
        if key in entry.session_options:
            raise AuthoringError(
                f"session option {quoted(key)} writes a file: onnxruntime 1.31 refuses to open a"
                " package that sets it; leave it to the program, or make a package of the metadata"
                " format"
            )
    constraints = entry.constraints
    parts: dict[str, Any] = {
        "variant_directory": (
            entry.directory or (sanitize_model_id(entry.model_id) if entry.model_id else None)
        ),
        "ep": constraints.ep,
        "device": None if leaves_out_device(constraints) else constraints.device,
        "compatibility_string": constraints.ep_compatibility_info,
        "executor_info": _executor_info(entry),
    }
    body = {key: value for key, value in parts.items() if value}
    if with_facts:
        body |= with_ortpkg_facts(entry.additional_metadata, _facts(entry))
    return body


def with_ortpkg_facts(additional_metadata: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"additional_metadata": ...}`` with ``facts`` in it; {} if there is nothing.

    Metadata that is not an object has no place beside facts, and becomes one of them.
    """
    facts = {key: thaw(value) for key, value in facts.items() if value or value == 0}
    if not facts:
        return (
            {}
            if additional_metadata is None
            else {"additional_metadata": thaw(additional_metadata)}
        )
    if additional_metadata is not None and not isinstance(additional_metadata, Mapping):
        return {
            "additional_metadata": {
                FACTS: {**facts, "additional_metadata": thaw(additional_metadata)}
            }
        }
    return {"additional_metadata": {**thaw(additional_metadata or {}), FACTS: facts}}


def leaves_out_device(constraints: Constraints) -> bool:
    """Return True if the component generation must not state this variant's device."""
    return constraints.ep == CPU_EP and constraints.device == _CPU_DEVICE


def _executor_info(entry: VariantEntry) -> dict[str, Any]:
    options = {"session_options": entry.session_options, "provider_options": entry.provider_options}
    ort = {"model_file": entry.model_file, **options, **entry.ort_payload}
    named = {key: thaw(value) for key, value in ort.items() if value}
    return ({ORT: named} if named else {}) | dict(thaw(entry.executor_info))


def _others_executor_info(entry: VariantEntry) -> dict[str, Any]:
    """Return the executor info without what the metadata generation's own keys state."""
    return ({ORT: thaw(entry.ort_payload)} if entry.ort_payload else {}) | dict(
        thaw(entry.executor_info)
    )


def _facts(entry: VariantEntry) -> dict[str, Any]:
    constraints = {"architecture": entry.constraints.architecture}
    if leaves_out_device(entry.constraints):
        constraints["device"] = entry.constraints.device
    return {
        "constraints": (
            {key: value for key, value in constraints.items() if value}
            | thaw(entry.other_constraints)
        ),
        "metadata": entry.metadata,
        "other_keys": entry.other_keys,
    }
