"""Package as JSON, for every command that shows or makes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ortpkg.authoring.variant_sizes import VariantBytes, variant_sizes
from ortpkg.foundations.documents.frozen import thaw
from ortpkg.foundations.errors import SignatureError
from ortpkg.package.package_info import PackageInfo, ValueInfo, VariantInfo
from ortpkg.package.sidecar import DIGESTS_FILE, signature_names


def package_json(info: PackageInfo) -> dict[str, Any]:
    """Return a package as JSON; paths are relative to its root, and absolute outside of it."""
    sizes = variant_sizes(info)
    return {
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "license": license_of(info),
        "format": "model" if info.is_bare_model else info.format.value,
        "root": str(info.root),
        "inputs": _values_json(info.inputs),
        "outputs": _values_json(info.outputs),
        "has_pipeline": info.has_pipeline,
        "has_samples": info.has_samples,
        "stale_signatures": _stale_signatures(info),
        "component_models": [
            {
                "name": component.name,
                "metadata": thaw(component.metadata),
                "variants": [
                    _variant_json(info, variant, sizes[component.name, variant.name])
                    for variant in component.variants
                ],
            }
            for component in info.components
        ],
    }


def _stale_signatures(info: PackageInfo) -> list[str]:
    """Return the package's signatures that do not cover the files it has now."""
    root = Path(info.root)
    names = [] if info.is_bare_model else signature_names(root)
    if not names:
        return []
    from ortpkg.package.trust.signing.openssf_signature import is_over
    from ortpkg.package.trust.signing.signature_files import (
        read_signatures,  # most packages have none
    )

    try:
        record, signatures = (root / DIGESTS_FILE).read_bytes(), read_signatures(root)
    except (OSError, SignatureError):
        return names
    return [signature.where for signature in signatures if not is_over(record, signature)]


def license_of(info: PackageInfo) -> str | None:
    """Return the licence in the package's additional metadata, or None."""
    license_text = (
        info.additional_metadata.get("license")
        if isinstance(info.additional_metadata, Mapping)
        else None
    )
    return license_text if isinstance(license_text, str) else None


def _variant_json(info: PackageInfo, variant: VariantInfo, size: VariantBytes) -> dict[str, Any]:
    constraints = variant.constraints
    return {
        "name": variant.name,
        "directory": _path_text(info, variant.directory),
        "model_path": None if variant.model_path is None else _path_text(info, variant.model_path),
        "absent": variant.is_absent,
        "nbytes": size.own_nbytes + size.shared_nbytes,
        "own_nbytes": size.own_nbytes,
        "shared_nbytes": size.shared_nbytes,
        "constraints": {
            "ep": constraints.ep,
            "device": constraints.device,
            "architecture": constraints.architecture,
            "ep_compatibility_info": constraints.ep_compatibility_info,
        },
        "session_options": dict(variant.session_options),
        "provider_options": dict(variant.provider_options),
        "metadata": thaw(variant.metadata),
        "additional_metadata": thaw(variant.additional_metadata),
    }


def _values_json(values: Iterable[ValueInfo]) -> list[dict[str, Any]]:
    return [
        {
            "name": value.name,
            "type": value.type,
            "shape": None if value.shape is None else list(value.shape),
        }
        for value in values
    ]


def _path_text(info: PackageInfo, path: Path) -> str:
    return (path.relative_to(info.root) if path.is_relative_to(info.root) else path).as_posix()
