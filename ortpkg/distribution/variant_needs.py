"""Which files of a whole package each of its variants needs: what a machine fetches for one."""

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
    """File (relative to the package, with ``/``) → ``component/variant`` of all that need it.

    A file that is no variant's is left out: every machine gets it. Models are opened, for the names
    of their data files; a variant whose model cannot be read, or that is a set of files, needs all
    of its folder.
    """
    variants = [variant for component in package.components for variant in component.variants]
    folders = Counter(variant.directory for variant in variants)
    needs: dict[str, list[str]] = {}
    for variant in variants:
        name = f"{variant.component_name}/{variant.name}"
        has_own_folder = folders[variant.directory] == 1 and variant.directory != package.root
        found = {*_named_files(package, variant)}
        if has_own_folder or variant.model_path is None or used_files(variant) is None:
            found.update(_files_below(variant.directory))
        for file in found:
            if file.is_relative_to(package.root):
                needs.setdefault(file.relative_to(package.root).as_posix(), []).append(name)
    return {file: tuple(names) for file, names in sorted(needs.items())}


def _named_files(package: PackageInfo, variant: VariantInfo) -> Iterator[Path]:
    """The model with its data, what session options name, assets that configurations mention."""
    yield from used_files(variant) or ([variant.model_path] if variant.model_path else [])
    for place in option_places(variant):
        yield from _files_below(place) if place.is_dir() else [place]
    if variant.model_path is None:
        assets = {asset.uri.removeprefix("sha256:"): asset.path for asset in package.shared_assets}
        for digest in _mentioned(_files_below(variant.directory)):
            if digest in assets:
                yield from _files_below(assets[digest])


def _mentioned(files: Iterable[Path]) -> Iterator[str]:
    """Digests of shared assets in the configurations of a set of files (onnxruntime-genai)."""
    for file in files:
        if file.suffix == ".json" and file.stat().st_size <= _MOST_CONFIGURATION_NBYTES:
            yield from (found.decode() for found in _MENTIONED_ASSET.findall(file.read_bytes()))


def _files_below(folder: Path) -> list[Path]:
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
