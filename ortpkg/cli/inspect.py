"""``ortpkg inspect``: what a package holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ortpkg.authoring.opening import opened
from ortpkg.authoring.variant_sizes import VariantBytes, variant_sizes
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.parameters import (
    CompatOption,
    ExternalPathsOption,
    JsonOption,
    OptionalPackageArgument,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Column, Output, nbytes_text
from ortpkg.documents.frozen import thaw
from ortpkg.ep_names import short_ep_names
from ortpkg.errors import ExitCode
from ortpkg.package.package_info import (
    PackageInfo,
    ValueInfo,
    VariantInfo,
    has_packages_version,
    version_of,
)


def command(
    package: OptionalPackageArgument = None,
    compat: CompatOption = None,
    allow_external_paths: ExternalPathsOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show a package's component models, their variants and what each variant needs."""
    output = Output(is_json=as_json)
    root = chosen_package(package, output)
    with (
        copy_progress() as progress,
        opened(
            root, compat=compat, allow_external_paths=allow_external_paths, progress=progress
        ) as info,
    ):
        if as_json:
            output.json(
                "package", {**package_json(info), "root": str(info.root if root.is_dir() else root)}
            )
        else:
            _print(info, root, output)
    return ExitCode.DONE


def _print(info: PackageInfo, named: Path, output: Output) -> None:
    version = f" {info.version}" if info.version else ""
    what = "bare model" if info.is_bare_model else f"{info.format.value} format"
    where = info.root if named.is_dir() else named
    output.line(f"{info.name}{version}: {what}, {where}", style="bold")
    if info.description:
        output.line(info.description, hang="")
    if license_text := license_of(info):
        output.line(f"license: {license_text}")
    for label, values in (("inputs", info.inputs), ("outputs", info.outputs)):
        if values:
            output.line(f"{label}: {', '.join(map(_value_text, values))}", hang="  ")
    sizes = variant_sizes(info)
    for component in info.components:
        own = [sizes[component.name, variant.name] for variant in component.variants]
        shares = any(each.shared_nbytes for each in own)
        has_versions = not all(map(has_packages_version, component.variants))
        output.table(
            [
                Column("variant"),
                *([Column("version")] if has_versions else []),
                Column("ep", short=short_ep_names),
                Column("device"),
                Column("architecture", drops=1),
                Column("data types", drops=2, wraps=12),
                Column("quantization", drops=3),
                Column("own size" if shares else "size", is_numeric=True),
                *([Column("shared", is_numeric=True, drops=4)] if shares else []),
            ],
            [
                (
                    variant.name,
                    *version,
                    *_variant_row(variant),
                    *_size_texts(size, shares=shares, is_absent=variant.is_absent),
                )
                for variant, size in zip(component.variants, own, strict=True)
                for version in [(version_of(variant, info) or "none",) if has_versions else ()]
            ],
            title=f"component model {component.name}",
        )


def package_json(info: PackageInfo) -> dict[str, Any]:
    """A package as JSON; paths are relative to its root, but absolute where they lead out of it."""
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


def license_of(info: PackageInfo) -> str | None:
    """What the package says of its licence, in its additional metadata.

    None where it says nothing.
    """
    found = (
        info.additional_metadata.get("license")
        if isinstance(info.additional_metadata, Mapping)
        else None
    )
    return found if isinstance(found, str) else None


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


def _variant_row(variant: VariantInfo) -> tuple[str, ...]:
    constraints = variant.constraints
    data_types = variant.metadata.get("data_types") or ()
    return (
        constraints.ep or "any",
        constraints.device or "any",
        constraints.architecture or "any",
        ", ".join(map(str, data_types)) if isinstance(data_types, tuple) else str(data_types),
        str(variant.metadata.get("quantization") or "none"),
    )


def _size_texts(size: VariantBytes, *, shares: bool, is_absent: bool) -> tuple[str, ...]:
    own = "absent" if is_absent else nbytes_text(size.own_nbytes)
    return (own, nbytes_text(size.shared_nbytes)) if shares else (own,)


def _path_text(info: PackageInfo, path: Path) -> str:
    return (path.relative_to(info.root) if path.is_relative_to(info.root) else path).as_posix()


def _value_text(value: ValueInfo) -> str:
    shape = (
        ""
        if value.shape is None
        else f" [{', '.join('?' if size is None else str(size) for size in value.shape)}]"
    )
    return f"{value.name} {value.type}{shape}"
