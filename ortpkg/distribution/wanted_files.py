"""Which files of a package a machine fetches for the variants that it wants.

What stays behind has to be recognized as absent, and not as missing, by
:mod:`ortpkg.package.integrity.absent_files`: so a folder of which a file comes, comes whole, and
JSON documents always come.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.package.package_info import PackageInfo
from ortpkg.registry.artifact import PackageArtifact, PackageFile

_SAMPLES = "samples"
_DATASET = ".dataset."


def wanted_files(
    artifact: PackageArtifact, package: PackageInfo, variants: frozenset[str], *, samples: bool
) -> dict[str, PackageFile]:
    """Path → the file, of all layers that ``variants``, ``component/variant`` each, need.

    Args:
        artifact: the package's layers.
        package: what its documents say; it need hold no other file.
        variants: what is wanted.
        samples: whether samples are wanted.
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
    """The variants whose folder the file lies in, by the nearest one."""
    folder = _folder(file.path)
    while folder:
        if folder in folders:
            return folders[folder]
        folder = _folder(folder)
    return []


def _variant_folders(package: PackageInfo) -> dict[str, list[str]]:
    """Folder → ``component/variant`` of the variants that lie in it."""
    found: dict[str, list[str]] = {}
    for component in package.components:
        for variant in component.variants:
            if variant.directory.is_relative_to(package.root):
                folder = variant.directory.relative_to(package.root).as_posix()
                found.setdefault(folder, []).append(f"{component.name}/{variant.name}")
    return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
