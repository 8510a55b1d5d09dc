"""``ortpkg inspect``: what a package holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ortpkg.api.model_package import ModelPackage
from ortpkg.cli.parameters import JsonOption, PackageArgument
from ortpkg.cli.rendering import Column, Output, nbytes_text
from ortpkg.errors import ExitCode
from ortpkg.package.frozen import thaw
from ortpkg.package.package_info import PackageInfo, ValueInfo, VariantInfo


def command(package: PackageArgument, as_json: JsonOption = False) -> int:
    """Show a package's component models, their variants and what each variant needs."""
    output = Output(is_json=as_json)
    info = ModelPackage(package).info
    if as_json:
        output.json("package", package_json(info))
        return ExitCode.DONE
    version = f" {info.version}" if info.version else ""
    output.line(f"{info.name}{version}: {info.format.value} format, {info.root}", style="bold")
    if info.description:
        output.line(info.description)
    for label, values in (("inputs", info.inputs), ("outputs", info.outputs)):
        if values:
            output.line(f"{label}: {', '.join(map(_value_text, values))}")
    for component in info.components:
        output.table(
            [
                *map(Column, ("variant", "ep", "device", "architecture", "data types", "quantization")),
                Column("size", is_numeric=True),
            ],
            [_variant_row(variant) for variant in component.variants],
            title=f"component model {component.name}",
        )
    return ExitCode.DONE


def package_json(info: PackageInfo) -> dict[str, Any]:
    """A package as JSON; paths are relative to its root."""
    return {
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "format": info.format.value,
        "root": str(info.root),
        "inputs": _values_json(info.inputs),
        "outputs": _values_json(info.outputs),
        "has_pipeline": info.has_pipeline,
        "has_samples": info.has_samples,
        "component_models": [
            {
                "name": component.name,
                "metadata": thaw(component.metadata),
                "variants": [_variant_json(info, variant) for variant in component.variants],
            }
            for component in info.components
        ],
    }


def _variant_json(info: PackageInfo, variant: VariantInfo) -> dict[str, Any]:
    constraints = variant.constraints
    return {
        "name": variant.name,
        "directory": variant.directory.relative_to(info.root).as_posix(),
        "model_path": None if variant.model_path is None else variant.model_path.relative_to(info.root).as_posix(),
        "nbytes": directory_nbytes(variant),
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
        {"name": value.name, "type": value.type, "shape": None if value.shape is None else list(value.shape)}
        for value in values
    ]


def _variant_row(variant: VariantInfo) -> tuple[str, ...]:
    constraints = variant.constraints
    data_types = variant.metadata.get("data_types") or ()
    return (
        variant.name,
        constraints.ep or "any",
        constraints.device or "any",
        constraints.architecture or "any",
        ", ".join(map(str, data_types)) if isinstance(data_types, tuple) else str(data_types),
        str(variant.metadata.get("quantization") or "none"),
        nbytes_text(directory_nbytes(variant)),
    )


def directory_nbytes(variant: VariantInfo) -> int:
    """Bytes of the files in the variant's directory, links not followed."""
    return sum(path.lstat().st_size for path in variant.directory.rglob("*") if path.is_file())


def _value_text(value: ValueInfo) -> str:
    shape = "" if value.shape is None else f" [{', '.join('?' if size is None else str(size) for size in value.shape)}]"
    return f"{value.name} {value.type}{shape}"
