"""Measure the files of each variant: its own, and those that it shares with others."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.package_info import PackageInfo, VariantInfo

VariantKey = tuple[str, str]
#: (component, variant) → the files that it uses, by real path, each with its size.
FilesByVariant: TypeAlias = Mapping[VariantKey, Mapping[Path, int]]
#: (model, folder of its data) → the files that it uses, as many variants may have one model.
_ReadModels = dict[tuple[Path, Path], list[Path] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantBytes:
    """Sizes of files; links are not followed, except those of a bare model.

    Attributes:
        own_nbytes: of files that no other variant uses: removing the variant frees them.
        shared_nbytes: of files that others use too.
    """

    own_nbytes: int
    shared_nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBytes:
    """Files that the same variants use, each stored once.

    Attributes:
        users: (component, variant) of each of them, two or more, in declaration order.
        files: their real paths.
        nbytes: size of all files together.
    """

    users: tuple[VariantKey, ...]
    files: tuple[Path, ...]
    nbytes: int


def variant_sizes(package: PackageInfo) -> Mapping[VariantKey, VariantBytes]:
    """Map (component, variant) to its sizes, of the files that :func:`files_by_variant` finds."""
    return sizes_of(files_by_variant(package))


def sizes_of(files: FilesByVariant) -> Mapping[VariantKey, VariantBytes]:
    """Map (component, variant) to its sizes."""
    users = Counter(file for used in files.values() for file in used)
    return {
        key: VariantBytes(
            own_nbytes=sum(nbytes for file, nbytes in used.items() if users[file] == 1),
            shared_nbytes=sum(nbytes for file, nbytes in used.items() if users[file] > 1),
        )
        for key, used in files.items()
    }


def shared_by(files: FilesByVariant) -> tuple[SharedBytes, ...]:
    """Return the files of several variants, grouped by their users, the largest group first."""
    users: dict[Path, list[VariantKey]] = {}
    sizes: dict[Path, int] = {}
    for key, used in files.items():
        for file, nbytes in used.items():
            users.setdefault(file, []).append(key)
            sizes[file] = nbytes
    groups: dict[tuple[VariantKey, ...], list[Path]] = {}
    for file, keys in users.items():
        if len(keys) > 1:
            groups.setdefault(tuple(keys), []).append(file)
    shared = (
        SharedBytes(users=keys, files=tuple(group), nbytes=sum(sizes[file] for file in group))
        for keys, group in groups.items()
    )
    return tuple(sorted(shared, key=lambda shared_bytes: -shared_bytes.nbytes))


def files_by_variant(package: PackageInfo) -> FilesByVariant:
    """Map (component, variant) to the files that it uses, by real path, each with its size.

    Models are opened only if variants share a folder, to see which files of it each of them uses;
    one that cannot be read, or is a set of files, uses all of its folder.
    """
    variants = [variant for component in package.components for variant in component.variants]
    # a bare model's folder is not its own
    shared = None if package.is_bare_model else _shared_folders(variants)
    read: _ReadModels = {}
    return {_key(variant): _files_of(variant, shared, read) for variant in variants}


def _key(variant: VariantInfo) -> VariantKey:
    return variant.component_name, variant.name


def _files_of(
    variant: VariantInfo, shared: Collection[Path] | None, read: _ReadModels
) -> dict[Path, int]:
    """Return every file that the variant uses, and its size.

    Args:
        variant: the variant.
        shared: folders of several variants; None for any.
        read: results for models that were read already.
    """
    is_alone = shared is not None
    is_shared = (
        shared is None
        or variant.directory in shared
        or any(variant.session_options.get(key) for key in PATH_SESSION_OPTIONS)
    )
    if is_shared and variant.model_path is not None:
        used = _used_files(variant, variant.model_path, read)
        if used is not None or not is_alone:
            paths = used or [variant.model_path]
            return _sizes(paths if is_alone else [path.resolve() for path in paths])
    return _sizes(
        [Path(parent, name) for parent, _, names in os.walk(variant.directory) for name in names]
    )


def _used_files(variant: VariantInfo, model: Path, read: _ReadModels) -> list[Path] | None:
    # imported here, as it needs onnx; most variants have a folder of their own
    from ortpkg.authoring.removal import used_files
    from ortpkg.package.formats.executor_info import data_folder_of

    model_and_folder = model, data_folder_of(variant)
    if model_and_folder not in read:
        read[model_and_folder] = used_files(variant)
    return read[model_and_folder]


def _shared_folders(variants: Sequence[VariantInfo]) -> frozenset[Path]:
    """Return the folders of variants that equal another variant's, lie in one, or hold one."""
    counts = Counter(variant.directory for variant in variants)
    shared = {folder for folder, count in counts.items() if count > 1}
    for folder in counts:
        outer_folders = [parent for parent in folder.parents if parent in counts]
        if outer_folders:
            shared.update((folder, *outer_folders))
    return frozenset(shared)


def _sizes(paths: list[Path]) -> dict[Path, int]:
    """Return the sizes of files; files that cannot be looked at are left out."""
    sizes = {}
    for path in paths:
        try:
            sizes[path.resolve()] = path.lstat().st_size
        except (OSError, RuntimeError):  # RuntimeError: a loop of links
            continue
    return sizes
