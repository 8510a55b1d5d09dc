"""What a user names becomes an opened package: a folder, a packed file, or a bare ONNX file.

A packed file is unpacked into a temporary folder of our own, which goes when the package is no
longer needed; every byte is compared with its digests.json on the way. A bare model is a package of
one component with one variant, whose root is the model's file: nothing is copied, and nothing that
lies beside it is taken for a part of it.
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

from ortpkg.documents.frozen import freeze
from ortpkg.errors import PackageNotFoundError, UsageError, quoted, unquoted
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
    from ortpkg.storage.hashing import Progress

#: The component model that a bare model is.
MODEL_COMPONENT = "model"
#: The second is the name of folders, which some give to packed packages too.
PACKED_SUFFIXES = (".ortpkg", ".ortpackage")
_MODEL_SUFFIX = ".onnx"
_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")
_temporary_folders: set[Path] = set()


class NamedKind(StrEnum):
    """What lies at a path that a user named."""

    PACKAGE = "package"
    PACKED = "packed package"
    MODEL = "model"


def kind_of(path: str | PathLike[str]) -> NamedKind:
    """What lies at ``path``; PACKAGE too where there is nothing, which its reader says.

    PackageNotFoundError for a file that is neither a packed package nor an ONNX model.
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
    """Whether the file at ``path`` is to be a packed package: by its name or first bytes."""
    return path.is_file() and (path.suffix.lower() in PACKED_SUFFIXES or _is_zip(path))


@contextlib.contextmanager
def opened(
    path: str | PathLike[str],
    *,
    compat: str | None = None,
    allow_external_paths: bool = False,
    progress: Progress | None = None,
) -> Iterator[PackageInfo]:
    """The package that ``path`` names, for as long as the context lasts.

    Args:
        path: a package's folder, a packed package, or an ONNX file.
        compat, allow_external_paths: as for :func:`~ortpkg.package.reader.open_package`.
        progress: told (file, bytes done, bytes in all) while a packed package is unpacked.

    Raises:
        PackageNotFoundError: there is nothing at ``path`` that could be opened.
        ModelError: a bare model is none.
        ArchiveError, DigestMismatchError: a packed package is damaged.
        PackageError: it is no valid package.
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
    """The folder of the package that ``path`` names: itself, or where a packed one was unpacked.

    UsageError for a bare model; the rest as :func:`opened`.
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

    from ortpkg.package.archive.package_archive import unpack_package
    from ortpkg.storage.file_operations import PassingOperations

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
    """Removes the folders of unpacked packages whose contexts were not left when a process ends."""
    for folder in tuple(_temporary_folders):
        _remove(folder)


def model_as_package(model: Path, *, name: str | None = None) -> PackageInfo:
    """A bare ONNX file as a package: one component, one variant named like the file, for any EP.

    ``name`` names it otherwise.

    Nothing is read; what is wrong with the model is found when it is. A model that is a symbolic
    link keeps the link's name, by which its data files are found (``linked_files``).
    """
    named = Path(os.path.realpath(model.parent), model.name)
    called = name or model.stem
    variant = VariantInfo(
        name=called, component_name=MODEL_COMPONENT, directory=named.parent, model_path=named
    )
    component = ComponentInfo(name=MODEL_COMPONENT, directory=named.parent, variants=(variant,))
    return PackageInfo(
        root=named,
        name=called,
        version=None,
        format=PackageFormat.COMPONENT,
        components=(component,),
        is_bare_model=True,
    )


def described_model(model: Path, *, name: str | None = None) -> PackageInfo:
    """:func:`model_as_package` with what the model says of itself: inputs, outputs, EP, facts.

    ModelError where it is missing, or not ONNX.
    """
    from ortpkg.authoring.model_facts import (  # onnx
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
        tuple(ValueInfo(name=each.name, type=each.type, shape=each.shape) for each in values)
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
    import shutil  # as tempfile

    shutil.rmtree(folder, ignore_errors=True)
    _temporary_folders.discard(folder)
