"""Whether onnxruntime 1.26 and 1.27 open a package: all of what they look at before they select a variant.

They read the metadata generation only, ignore what they do not know, confine nothing to the package, and resolve the
model of every variant, also of those that they would not select. ``tests/interop/metadata_cases.py`` holds these rules
against the releases. Nothing but documents is read here; of other files only names are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.errors import PackageFormatError, quoted
from ortpkg.package.documents import DocumentLimits, read_json
from ortpkg.package.findings import json_pointer
from ortpkg.package.metadata_format import MANIFEST, METADATA, MODELS, sanitize_model_id

_LIMITS = DocumentLimits(depth=200, repeated_keys=True)
_MODEL_SUFFIX = ".onnx"
_UNREADABLE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a release does not open the package, and where: a document and a pointer into it."""

    document: str
    message: str
    pointer: str = ""


def why_1_27_refuses(root: Path) -> Iterator[Refusal]:
    """Every reason for which onnxruntime 1.26 and 1.27 do not open the package in ``root``; none if they do."""
    if _is_file(root / METADATA):  # the root is a component's own folder, whatever else is there
        yield from _refusals_of_component(root, METADATA)
        return
    manifest = _read(root / MANIFEST)
    if not isinstance(manifest, Mapping):
        yield Refusal(document=MANIFEST, message="is not there, or is no JSON object")
        return
    name = manifest.get("model_name")
    if not isinstance(name, str) or not name:
        yield Refusal(document=MANIFEST, message="has no model_name, which must be a text that is not empty")
        return
    components = manifest["component_models"] if "component_models" in manifest else _discover(root)
    if not isinstance(components, list) or not all(isinstance(each, str) for each in components):
        message = "component_models is not a list of names"
        yield Refusal(document=MANIFEST, message=message, pointer="/component_models")
    elif len(components) != 1:
        message = f"has {len(components)} component models; exactly one is read"
        pointer = "/component_models" if "component_models" in manifest else ""
        yield Refusal(document=MANIFEST, message=message, pointer=pointer)
    else:
        yield from _refusals_of_component(root / MODELS / components[0], f"{MODELS}/{components[0]}/{METADATA}")


def _discover(root: Path) -> list[str]:
    try:
        return sorted(each.name for each in (root / MODELS).iterdir() if _is_file(each / METADATA))
    except (OSError, ValueError):
        return []


def _refusals_of_component(folder: Path, document: str) -> Iterator[Refusal]:
    metadata = _read(folder / METADATA)
    variants = metadata.get("model_variants") if isinstance(metadata, Mapping) else None
    if not isinstance(variants, Mapping) or not variants:
        message = "is not there, is no JSON object, or has no model_variants"
        yield Refusal(document=document, message=message)
        return
    for name, body in variants.items():
        if reason := _why_no_model(folder, name, body if isinstance(body, Mapping) else {}):
            message = f"variant {quoted(name)} {reason}: the whole package is refused, whichever variant would suit"
            yield Refusal(document=document, message=message, pointer=json_pointer("model_variants", name))


def _why_no_model(component: Path, name: str, body: Mapping[str, Any]) -> str | None:
    """Why the variant's model is not found; None if it is."""
    model_id, model_file = body.get("model_id"), body.get("model_file")
    base = component / (sanitize_model_id(model_id) if isinstance(model_id, str) and model_id else name)
    place = base / model_file if isinstance(model_file, str) else base
    if _is_file(place):
        return None
    try:
        names = [each for each in place.iterdir() if each.name.lower().endswith(_MODEL_SUFFIX) and _is_file(each)]
    except (OSError, ValueError):
        what = f"model file {quoted(model_file)}" if place != base else f"folder {quoted(base.name)}"
        return f"has no {what}"
    return None if len(names) == 1 else f"has {len(names)} ONNX files in {quoted(place.name)}, and names none of them"


def _read(path: Path) -> Any:
    try:
        return read_json(path, document=path.name, limits=_LIMITS)
    except PackageFormatError:
        return _UNREADABLE


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
