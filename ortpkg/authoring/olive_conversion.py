"""Give each variant of an Olive 0.13 package its own configuration for onnxruntime-genai.

Olive writes the configurations once, in ``configs``, and each variant's changes to them as a merge
patch (RFC 7386). onnxruntime-genai takes a variant's folder and reads the genai_config.json in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.json_documents import dump_document, read_document
from ortpkg.foundations.errors import quoted
from ortpkg.package.formats.model_search import GENAI_CONFIG
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.paths.disk_places import is_inside
from ortpkg.package.paths.path_text import why_not_portable

OVERLAY = "genai_config_overlay.json"
_COMPONENT, _CONFIGS = "component", "configs_dir"


class GenaiFolders(NamedTuple):
    """Changes that make each variant a folder of onnxruntime-genai; empty if that is impossible.

    Attributes:
        documents: path relative to the root → the genai_config.json to write there.
        files: path relative to the root → the file to copy there.
        replaced: files that are no longer needed.
        why_not: why there are no changes; "" if there are, or if the package has no configurations.
    """

    documents: Mapping[str, bytes]
    files: Mapping[str, Path]
    replaced: frozenset[str]
    why_not: str = ""


def genai_folders(package: PackageInfo, folders: Mapping[tuple[str, str], str]) -> GenaiFolders:
    """Return the configurations of each variant of an Olive package.

    Args:
        package: as it was read.
        folders: (component, variant) → its folder in the new package.

    Raises:
        PackageFormatError: a configuration is not a JSON object, or exceeds a limit.
    """
    configs = _configs_folder(package)
    if configs is None or not (package.root / configs / GENAI_CONFIG).is_file():
        return GenaiFolders({}, {}, frozenset(), why_not=_why_no_base(package))
    if len(package.components) != 1:
        names = ", ".join(quoted(component.name) for component in package.components)
        reason = (
            f"onnxruntime-genai loads a folder with all of a model, and {names} are components of"
            f" their own: {configs}/ and {OVERLAY} stay as they are"
        )
        return GenaiFolders({}, {}, frozenset(), why_not=reason)
    base = read_document(
        package.root / configs / GENAI_CONFIG, document=f"{configs}/{GENAI_CONFIG}"
    )
    common = [path for path in list_files(package.root) if path.startswith(f"{configs}/")]
    documents: dict[str, bytes] = {}
    files: dict[str, Path] = {}
    replaced = set(common)
    for variant in package.components[0].variants:
        folder = folders[variant.component_name, variant.name]
        overlay, variant_path = (
            variant.directory / OVERLAY,
            variant.directory.relative_to(package.root),
        )
        patch: Mapping[str, Any] = {}
        if overlay.is_file():
            patch = read_document(overlay, document=(variant_path / OVERLAY).as_posix())
            replaced.add((variant_path / OVERLAY).as_posix())
        config = dict(_without_components(merge_patch(base, patch)))
        documents[f"{folder}/{GENAI_CONFIG}"] = dump_document(config)
        files |= {
            f"{folder}/{path.removeprefix(f'{configs}/')}": package.root / path
            for path in common
            if path != f"{configs}/{GENAI_CONFIG}"
        }
    return GenaiFolders(documents, files, frozenset(replaced))


def without_configs(additional_metadata: Any) -> Any:
    """Return the facts kept of Olive's manifest without its folder of configurations."""
    if not isinstance(additional_metadata, Mapping):
        return additional_metadata
    return {key: value for key, value in additional_metadata.items() if key != _CONFIGS} or None


def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` with a JSON merge patch applied (RFC 7386); neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _without_components(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the configuration without names of components, which a variant's folder has none of."""
    for key, value in config.items():
        if key == "model" and isinstance(value, Mapping):
            yield (
                key,
                {
                    role: {k: v for k, v in body.items() if k != _COMPONENT}
                    if isinstance(body, Mapping)
                    else body
                    for role, body in value.items()
                },
            )
        else:
            yield key, value


def _why_no_base(package: PackageInfo) -> str:
    """Return why the base configuration is missing; "" if nothing refers to one."""
    configs = _stated_configs(package)
    overlays = [
        variant.name
        for component in package.components
        for variant in component.variants
        if (variant.directory / OVERLAY).is_file()
    ]
    if configs is None and not overlays:
        return ""
    where = (
        f"{_CONFIGS} is {quoted(configs)}" if configs is not None else f"no {_CONFIGS} is stated"
    )
    return (
        f"no {GENAI_CONFIG} is made for onnxruntime-genai: {where}, and there is no {GENAI_CONFIG}"
        f" in such a folder of the package; {OVERLAY} of {len(overlays)} variants stay as they are"
    )


def _stated_configs(package: PackageInfo) -> object:
    """Return the folder of configurations as the manifest states it, of any type."""
    additional_metadata = package.additional_metadata
    return additional_metadata.get(_CONFIGS) if isinstance(additional_metadata, Mapping) else None


def _configs_folder(package: PackageInfo) -> str | None:
    """Return the folder of configurations relative to the root; None if none is stated safely."""
    folder = _stated_configs(package)
    if not isinstance(folder, str) or why_not_portable(folder):
        return None
    return folder if is_inside(str((package.root / folder).resolve()), str(package.root)) else None
