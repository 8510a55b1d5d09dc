"""Open the package that a user names: a folder, a packed file, or a bare ONNX file.

A packed file is unpacked into a temporary folder, which is removed when the package is no longer
needed; every byte is compared with its digests.json. A bare model is a package of one component
with one variant, whose root is the model's file: nothing is copied, and no other file beside it
counts as a part of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.documents.frozen import freeze
from ortpkg.foundations.errors import PackageNotFoundError, UsageError, quoted, unquoted
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    PackageFormat,
    PackageInfo,
    ValueInfo,
    VariantInfo,
)
from ortpkg.package.reader import open_package

if TYPE_CHECKING:
    from ortpkg.foundations.storage.hashing import Progress

#: Name of the component model of a bare model.
MODEL_COMPONENT = "model"
#: The second is the suffix of folders; some users give it to packed packages, too.
PACKED_SUFFIXES = (".ortpkg", ".ortpackage")
_MODEL_SUFFIX = ".onnx"
_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")
_temporary_folders: set[Path] = set()


class NamedKind(StrEnum):
    """Kind of package at a path that a user named."""

    PACKAGE = "package"
    PACKED = "packed package"
    MODEL = "model"


def kind_of(path: str | PathLike[str]) -> NamedKind:
    """Return the kind of package at ``path``; PACKAGE too if nothing is there: its reader says so.

    Raises:
        PackageNotFoundError: a file is neither a packed package nor an ONNX model.
    """
    named = Path(path)
    if not named.is_file():
        return NamedKind.PACKAGE
    if named.suffix.lower() == _MODEL_SUFFIX:
        return NamedKind.MODEL
    from ortpkg.graph.foreign_models import foreign_model  # most packages are folders

    if foreign := foreign_model(named):
        raise PackageNotFoundError(f"{quoted(named)} is {foreign}", path=named)
    if is_packed(named):
        return NamedKind.PACKED
    raise PackageNotFoundError(
        f"{quoted(named)} is not a directory: name a package's folder, a packed package"
        " (name.ortpkg) or an ONNX model (name.onnx)",
        path=named,
    )


def is_packed(path: Path) -> bool:
    """Return True if the file at ``path`` is a packed package by its name or first bytes."""
    return path.is_file() and (path.suffix.lower() in PACKED_SUFFIXES or _is_zip(path))


@contextlib.contextmanager
def opened(
    path: str | PathLike[str],
    *,
    compat: str | None = None,
    allow_external_paths: bool = False,
    progress: Progress | None = None,
) -> Iterator[PackageInfo]:
    """Yield the package that ``path`` names, open as long as the context lasts.

    Args:
        path: a package's folder, a packed package, or an ONNX file.
        compat, allow_external_paths: as for :func:`~ortpkg.package.reader.open_package`.
        progress: called with (file, bytes done, bytes in all) while a packed package is unpacked.

    Raises:
        PackageNotFoundError: there is nothing at ``path`` that could be opened.
        ModelError: a bare model is not valid.
        ArchiveError, DigestMismatchError: a packed package is damaged.
        PackageError: it is not a valid package.
    """
    if kind_of(path) is NamedKind.MODEL:
        yield described_model(Path(path))
        return
    with package_folder(path, progress=progress) as root:
        yield open_package(root, compat=compat, allow_external_paths=allow_external_paths)


@contextlib.contextmanager
def package_folder(
    path: str | PathLike[str], *, progress: Progress | None = None
) -> Iterator[Path]:
    """Yield the folder of the package that ``path`` names: itself, or the unpacked one.

    Raises:
        UsageError: ``path`` is a bare model.
        PackageError: as :func:`opened`.
    """
    kind = kind_of(path)
    if kind is NamedKind.MODEL:
        raise UsageError(
            f"{quoted(path)} is no package: ortpkg create {unquoted(path)} makes one of a model"
        )
    if kind is NamedKind.PACKAGE:
        yield Path(path)
        return
    import tempfile  # most packages are folders, which need neither this nor zlib and the locks

    from ortpkg.foundations.storage.file_operations import PassingOperations
    from ortpkg.package.archive.package_archive import unpack_package

    packed = Path(os.path.abspath(path))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    temporary = Path(tempfile.mkdtemp(prefix="ortpkg-"))
    _temporary_folders.add(temporary)
    try:
        root = temporary / f"{packed.stem}.ortpackage"
        unpack_package(packed.resolve(), root, progress=progress, operations=PassingOperations())
        yield root
    finally:
        _remove(temporary)


def remove_temporary_folders() -> None:
    """Remove the folders of unpacked packages whose contexts are still open at exit."""
    for folder in tuple(_temporary_folders):
        _remove(folder)


def model_as_package(model: Path, *, name: str | None = None) -> PackageInfo:
    """Return a bare ONNX file as a package: one component, one variant for any EP.

    The variant is named like the file, or ``name``. Nothing is read; errors of the model appear
    when it is. A model that is a symbolic link keeps the link's name, by which its data files are
    found (``linked_files``).
    """
    named = Path(os.path.realpath(model.parent), model.name)
    variant_name = name or model.stem
    variant = VariantInfo(
        name=variant_name, component_name=MODEL_COMPONENT, directory=named.parent, model_path=named
    )
    component = ComponentInfo(name=MODEL_COMPONENT, directory=named.parent, variants=(variant,))
    return PackageInfo(
        root=named,
        name=variant_name,
        version=None,
        format=PackageFormat.COMPONENT,
        components=(component,),
        is_bare_model=True,
    )


def described_model(model: Path, *, name: str | None = None) -> PackageInfo:
    """Return :func:`model_as_package` with the model's own facts: inputs, outputs, EP, metadata.

    Raises:
        ModelError: the model is missing, or not ONNX.
    """
    from ortpkg.authoring.model_facts import (  # imports onnx
        complete_constraints,
        read_model_facts,
        variant_metadata,
    )

    package = model_as_package(model, name=name)
    (component,) = package.components
    (variant,) = component.variants
    facts = read_model_facts(package.root)
    described = replace(
        variant,
        constraints=complete_constraints(Constraints(), facts, lambda _text: None),
        metadata=freeze(variant_metadata(facts, package.root.stat().st_size)),
    )
    inputs, outputs = (
        tuple(ValueInfo(name=value.name, type=value.type, shape=value.shape) for value in values)
        for values in (facts.signature.inputs, facts.signature.outputs)
    )
    return replace(
        package,
        components=(replace(component, variants=(described,)),),
        inputs=inputs,
        outputs=outputs,
    )


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) in _ZIP_SIGNATURES
    except OSError:
        return False


def _remove(folder: Path) -> None:
    import shutil  # as above

    shutil.rmtree(folder, ignore_errors=True)
    _temporary_folders.discard(folder)
