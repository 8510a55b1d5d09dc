"""Files that each variant of a package needs, which a machine fetches for it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ortpkg.authoring.removal import used_files
from ortpkg.authoring.variant_files import option_places
from ortpkg.package.package_info import PackageInfo, VariantInfo

_MENTIONED_ASSET = re.compile(rb"sha256[:-]([0-9a-f]{64})")
_MOST_CONFIGURATION_NBYTES = 1 << 20


def needs_of_variants(package: PackageInfo) -> Mapping[str, tuple[str, ...]]:
    """Return the variants (``component/variant``) that need a file, by its path in the package.

    Files that belong to no variant are left out; every machine gets them. Models are opened for the
    names of their data files. A variant that is a set of files, or has an unreadable model, needs
    its folder.
    """
    variants = [variant for component in package.components for variant in component.variants]
    folders = Counter(variant.directory for variant in variants)
    needs: dict[str, list[str]] = {}
    for variant in variants:
        name = f"{variant.component_name}/{variant.name}"
        has_own_folder = folders[variant.directory] == 1 and variant.directory != package.root
        variant_files = {*_named_files(package, variant)}
        if has_own_folder or variant.model_path is None or used_files(variant) is None:
            variant_files.update(_files_below(variant.directory))
        for file in variant_files:
            if file.is_relative_to(package.root):
                needs.setdefault(file.relative_to(package.root).as_posix(), []).append(name)
    return {file: tuple(names) for file, names in sorted(needs.items())}


def _named_files(package: PackageInfo, variant: VariantInfo) -> Iterator[Path]:
    """Yield the model and its data, files of session options, and assets in configurations."""
    yield from used_files(variant) or ([variant.model_path] if variant.model_path else [])
    for path in option_places(variant):
        yield from _files_below(path) if path.is_dir() else [path]
    if variant.model_path is None:
        assets = {asset.uri.removeprefix("sha256:"): asset.path for asset in package.shared_assets}
        for digest in _mentioned(_files_below(variant.directory)):
            if digest in assets:
                yield from _files_below(assets[digest])


def _mentioned(files: Iterable[Path]) -> Iterator[str]:
    """Yield digests of shared assets in the configurations of files (onnxruntime-genai)."""
    for file in files:
        if file.suffix == ".json" and file.stat().st_size <= _MOST_CONFIGURATION_NBYTES:
            yield from (match.decode() for match in _MENTIONED_ASSET.findall(file.read_bytes()))


def _files_below(folder: Path) -> list[Path]:
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
