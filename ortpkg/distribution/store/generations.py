"""Installed versions of a package under a name, and the one of them that is in use.

``names/<name>/generations/<number>/generation.json`` records one installation and never changes; if
several processes want a number, one of them gets it. ``names/<name>/current.json`` is a copy of the
record in use, so that a list of packages reads one small file for each; it is replaced in one step.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.foundations.errors import PackageNotInstalledError, PackageReferenceError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.references.package_references import is_store_name
from ortpkg.package.stored_documents import damaged, dump_json, read_json

_CURRENT, _RECORD = "current.json", "generation.json"
_NUMBER = re.compile("[0-9]{7}")
_TREE = re.compile("[0-9a-f]{64}/[0-9a-f]{16}")
_MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One installation of a package under a name.

    Attributes:
        name: Name of the package in the store.
        number: Number of the installation, from 1 on.
        created: Time of the installation, in seconds since 1970.
        reference: Reference that was installed.
        tag: Tag of the version, or "".
        model_version: Version of the model as the package states it; "" if it states none, and in
            records of older versions of ortpkg.
        digest: Digest of the package's manifest.
        tree: Key of the package's tree.
        folder: Name of the package's folder in the tree.
        variants: Selected variants, each ``component/variant``.
        why: Reason of the selection, for people.
        asked: Options of the selection, each ``key=value``, so that an upgrade selects by the same.
        nbytes: Size of the files that are installed.
        full_nbytes: Size of all files of the package.
    """

    name: str
    number: int = 0
    created: float = 0.0
    reference: str
    tag: str = ""
    digest: str
    tree: str
    folder: str
    variants: tuple[str, ...] = ()
    why: str = ""
    asked: tuple[str, ...] = ()
    nbytes: int = 0
    full_nbytes: int = 0
    model_version: str = ""

    def is_same_as(self, other: Generation) -> bool:
        """Return True if both install the same, whatever their time and reason."""
        return _without_circumstances(self) == _without_circumstances(other)


def _without_circumstances(generation: Generation) -> Generation:
    return replace(generation, number=0, created=0.0, why="", model_version="")


def check_name(name: str) -> str:
    """Return ``name`` if a package may be installed under it.

    Raises:
        PackageReferenceError: The name is invalid.
    """
    if not is_store_name(name) or why_not_a_name(name) is not None:
        raise PackageReferenceError(
            f"{quoted(name)} is no name for an installed package: at most 128 lower-case"
            " letters and digits, with . _ - inside",
            reference=name,
        )
    return name


def installed_names(folder: StoreFolder) -> list[str]:
    """Return the names that have, or are about to have, an installation."""
    return [name for name in names_in(folder.names) if is_store_name(name)]


def current_generation(folder: StoreFolder, name: str) -> Generation | None:
    """Return the generation in use, or None if there is none.

    Raises:
        StoreError: The record is damaged.
    """
    # one Path object fewer for each of a thousand names
    path = f"{folder.root}/names/{name}/{_CURRENT}"
    document = read_json(path)
    return None if document is None else _generation_of(path, document, name)


def generations(folder: StoreFolder, name: str) -> Iterator[Generation]:
    """Yield all generations of a name, newest first.

    Raises:
        StoreError: A record is damaged.
    """
    for number in sorted(_numbers(folder, name), reverse=True):
        if (generation := read_generation(folder, name, number)) is not None:
            yield generation


def read_generation(folder: StoreFolder, name: str, number: int) -> Generation | None:
    """Return one generation, or None if it does not exist."""
    path = _generation_folder(folder, name, number) / _RECORD
    document = read_json(path)
    return None if document is None else _generation_of(path, document, name)


def record_generation(folder: StoreFolder, wanted: Generation) -> Generation:
    """Write a generation with the next free number, and return it; it is not in use yet."""
    base = folder.names / check_name(wanted.name) / "generations"
    for _ in range(_MOST_ATTEMPTS):
        number = max(_numbers(folder, wanted.name), default=0) + 1
        recorded = replace(wanted, number=number, created=time.time())
        staging = folder.new_staging()
        try:
            folder.operations.make_directory(staging)
            folder.operations.write_file(staging / _RECORD, dump_json(_to_json(recorded)))
            folder.operations.fsync_directory(staging)
            folder.make_folder(base)
            folder.operations.place(staging, _generation_folder(folder, wanted.name, number))
            folder.operations.fsync_directory(base)
        # another process took the number, or the name was removed
        except (FileExistsError, FileNotFoundError):
            folder.remove_quietly(staging)
            continue
        except OSError:
            folder.remove_quietly(staging)
            raise
        return recorded
    raise FileExistsError(f"no free number for {quoted(wanted.name)}")


def switch_to(folder: StoreFolder, generation: Generation) -> None:
    """Put a generation in use."""
    path = folder.names / generation.name / _CURRENT
    folder.write_json(path, {**_to_json(generation), "activated": time.time()})


def remove_generation(folder: StoreFolder, generation: Generation) -> None:
    """Remove a generation's record durably."""
    path = _generation_folder(folder, generation.name, generation.number)
    folder.discard(path)
    with contextlib.suppress(FileNotFoundError):
        folder.operations.fsync_directory(path.parent)


def remove_name(folder: StoreFolder, name: str) -> None:
    """Remove a name and all its generations, in one step."""
    folder.discard(folder.names / name)


def find_generation(
    folder: StoreFolder, name: str, *, tag: str | None = None, digest: str | None = None
) -> Generation:
    """Return the generation of a name with that tag or digest; without either, the one in use.

    If several have the tag, the newest is returned.

    Raises:
        PackageNotInstalledError: There is none; the message lists those that exist.
        PackageReferenceError: The name is invalid.
    """
    check_name(name)
    current = current_generation(folder, name)
    if current is None:
        names = installed_names(folder) if folder.exists else ()
        raise PackageNotInstalledError(
            f"{quoted(name)} is not installed in the store {quoted(folder.root)}"
            f"{did_you_mean(name, names)}",
            name=name,
        )
    if (tag is None or current.tag == tag) and (digest is None or current.digest == digest):
        return current
    installed = list(generations(folder, name))
    for generation in installed:
        if tag in (None, generation.tag) and digest in (None, generation.digest):
            return generation
    version = f"{name}:{tag}" if digest is None else f"{name}@{digest}"
    versions = ", ".join(
        dict.fromkeys(
            quoted(generation.tag) if generation.tag else generation.digest
            for generation in installed
        )
    )
    raise PackageNotInstalledError(
        f"{quoted(version)} is not installed; of {quoted(name)} there is {versions}", name=version
    )


def _numbers(folder: StoreFolder, name: str) -> list[int]:
    return [
        int(number)
        for number in names_in(folder.names / name / "generations")
        if _NUMBER.fullmatch(number)
    ]


def _generation_folder(folder: StoreFolder, name: str, number: int) -> Path:
    return folder.names / name / "generations" / f"{number:07}"


def _to_json(generation: Generation) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "name": generation.name,
        "number": generation.number,
        "created": generation.created,
        "reference": generation.reference,
        "tag": generation.tag,
        "digest": generation.digest,
        "tree": generation.tree,
        "folder": generation.folder,
        "variants": list(generation.variants),
        "why": generation.why,
        "asked": list(generation.asked),
        "nbytes": generation.nbytes,
        "full_nbytes": generation.full_nbytes,
        "model_version": generation.model_version,
    }


def _generation_of(path: Path | str, document: Mapping[str, Any], name: str) -> Generation:
    try:
        generation = Generation(
            name=document["name"],
            number=document["number"],
            created=float(document["created"]),
            reference=document["reference"],
            tag=document["tag"],
            digest=document["digest"],
            tree=document["tree"],
            folder=document["folder"],
            variants=tuple(document["variants"]),
            why=document["why"],
            asked=tuple(document.get("asked", ())),
            nbytes=document["nbytes"],
            full_nbytes=document["full_nbytes"],
            model_version=document.get("model_version", ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path) from error
    texts = (
        generation.reference,
        generation.tag,
        generation.folder,
        generation.why,
        generation.model_version,
    )
    numbers = (generation.number, generation.nbytes, generation.full_nbytes)
    is_right = (
        generation.name == name
        and all(isinstance(text, str) for text in (*texts, *generation.variants, *generation.asked))
        and all(type(number) is int and number >= 0 for number in numbers)
        and is_digest(generation.digest)
        and _TREE.fullmatch(str(generation.tree)) is not None
        and why_not_a_name(generation.folder) is None
    )
    if not is_right:
        raise damaged(path)
    return generation
