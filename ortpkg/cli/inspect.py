"""``ortpkg inspect``: shows the content of a package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.opening import opened
from ortpkg.authoring.variant_sizes import VariantBytes, variant_sizes
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.package_json import license_of, package_json
from ortpkg.cli.package_tree import package_tree
from ortpkg.cli.parameters import CompatOption, ExternalPathsOption, OptionalPackageArgument
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.cli.tree_drawing import drawn
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode, PackageFormatError, UsageError, quoted
from ortpkg.package.derived_variants import current_digests, stale_variants
from ortpkg.package.package_info import (
    ComponentInfo,
    PackageInfo,
    ValueInfo,
    VariantInfo,
    has_packages_version,
    version_of,
)

TreeOption = Annotated[
    bool,
    typer.Option(
        "--tree", help="As a tree: the pipeline, component models, variants and their files."
    ),
]


def command(
    output: Output,
    package: OptionalPackageArgument = None,
    as_tree: TreeOption = False,
    compat: CompatOption = None,
    allow_external_paths: ExternalPathsOption = False,
    *,
    limits: LoadLimits,
) -> int:
    """Show a package's component models, their variants and what each variant needs."""
    if as_tree and output.is_json:
        raise UsageError("give --tree or --json, not both: JSON is for programs")
    root = chosen_package(package, output)
    with (
        end_at_limits(limits, output),
        copy_progress() as progress,
        opened(
            root, compat=compat, allow_external_paths=allow_external_paths, progress=progress
        ) as info,
    ):
        if output.is_json:
            output.json(
                "package", {**package_json(info), "root": str(info.root if root.is_dir() else root)}
            )
        elif as_tree:
            lines = drawn(package_tree(info), is_unicode=output.room.is_unicode)
            output.tree(list(lines), short=short_ep_names)
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
        own_sizes = [sizes[component.name, variant.name] for variant in component.variants]
        shares = any(size.shared_nbytes for size in own_sizes)
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
                for variant, size in zip(component.variants, own_sizes, strict=True)
                for version in [(version_of(variant, info) or "none",) if has_versions else ()]
            ],
            title=f"component model {component.name}",
        )
        for name, reason in _stale(info, component).items():
            output.warning(f"variant {quoted(name)} is stale: {reason}")


def _stale(info: PackageInfo, component: ComponentInfo) -> dict[str, str]:
    """Return stale variants with reasons.

    None if the records are damaged, which validate reports.
    """
    try:
        return stale_variants(component, current_digests(info))
    except PackageFormatError:
        return {}


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
    own_text = "absent" if is_absent else nbytes_text(size.own_nbytes)
    return (own_text, nbytes_text(size.shared_nbytes)) if shares else (own_text,)


def _value_text(value: ValueInfo) -> str:
    shape = (
        ""
        if value.shape is None
        else f" [{', '.join('?' if size is None else str(size) for size in value.shape)}]"
    )
    return f"{value.name} {value.type}{shape}"
