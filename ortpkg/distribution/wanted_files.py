"""Files of a package that a machine fetches for its variants.

:mod:`ortpkg.package.integrity.absent_files` must be able to tell files that were not fetched from
missing ones. So a folder is fetched completely or not at all, and JSON documents always.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.distribution.registry.artifact import PackageArtifact, PackageFile
from ortpkg.package.package_info import PackageInfo

_SAMPLES = "samples"
_DATASET = ".dataset."


def wanted_files(
    artifact: PackageArtifact, package: PackageInfo, variants: frozenset[str], *, samples: bool
) -> dict[str, PackageFile]:
    """Return the files of all layers that ``variants`` need, by path.

    Args:
        artifact: Layers of the package.
        package: Documents of the package; it need not have other files.
        variants: Names of variants, each ``component/variant``.
        samples: True to include samples.
    """
    folders = _variant_folders(package)
    wanted = set()
    for path, file in artifact.files.items():
        if _is_sample(file) and not path.endswith(".json"):
            is_wanted = samples
        elif path.endswith(".json") or "/" not in path:
            is_wanted = True
        else:
            needed_by = _needed_by(file, folders) if file.variants is None else file.variants
            is_wanted = not needed_by or not variants.isdisjoint(needed_by)
        if is_wanted:
            wanted.add(path)
    whole = {_folder(path) for path in wanted if not path.endswith(".json")}
    return {
        path: file
        for path, file in artifact.files.items()
        if path in wanted or _folder(path) in whole
    }


def _is_sample(file: PackageFile) -> bool:
    return _DATASET in file.layer.media_type or file.path.startswith(f"{_SAMPLES}/")


def _needed_by(file: PackageFile, folders: Mapping[str, list[str]]) -> list[str]:
    """Return the variants in the nearest folder around the file."""
    folder = _folder(file.path)
    while folder:
        if folder in folders:
            return folders[folder]
        folder = _folder(folder)
    return []


def _variant_folders(package: PackageInfo) -> dict[str, list[str]]:
    """Return the variants (``component/variant``) in each folder."""
    folders: dict[str, list[str]] = {}
    for component in package.components:
        for variant in component.variants:
            if variant.directory.is_relative_to(package.root):
                folder = variant.directory.relative_to(package.root).as_posix()
                folders.setdefault(folder, []).append(f"{component.name}/{variant.name}")
    return folders


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
