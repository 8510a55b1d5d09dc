"""Mark the variants of a sparse package whose recorded files are absent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.integrity.absent_files import AbsentFiles
from ortpkg.package.package_info import PackageInfo, VariantInfo


def with_absences(package: PackageInfo, absences: AbsentFiles) -> PackageInfo:
    """Return the package with ``is_absent`` set on variants that lack files."""
    components = tuple(
        replace(
            component,
            variants=tuple(
                replace(variant, is_absent=True) if _is_absent(variant, absences) else variant
                for variant in component.variants
            ),
        )
        for component in package.components
    )
    absent = {path: recorded.nbytes for path, recorded in absences.files.items()}
    return replace(package, components=components, absent_files=absent)


def _is_absent(variant: VariantInfo, absences: AbsentFiles) -> bool:
    return any(absences.is_any_below(path) for path in _paths(variant))


def _paths(variant: VariantInfo) -> Iterator[Path]:
    yield variant.directory
    if variant.model_path is not None:
        yield variant.model_path
    for key in PATH_SESSION_OPTIONS:
        if option := variant.session_options.get(key):
            yield variant.directory / option
