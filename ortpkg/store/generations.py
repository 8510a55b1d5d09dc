"""Which versions of a package are installed under a name, and which of them is in use.

``names/<name>/generations/<number>/generation.json`` is one installation, which never changes: of
several processes that want a number, one gets it. ``names/<name>/current.json`` says which counts,
with all of its record, so that a list of packages reads one small file for each; it is replaced in
one step.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.errors import PackageNotInstalledError, PackageReferenceError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.registry.descriptors import is_digest
from ortpkg.registry.references import is_store_name
from ortpkg.store.store_folder import StoreFolder, damaged, dump_json, names_in, read_json

_CURRENT, _RECORD = "current.json", "generation.json"
_NUMBER = re.compile("[0-9]{7}")
_TREE = re.compile("[0-9a-f]{64}/[0-9a-f]{16}")
_MOST_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One installation of a package under a name.

    Attributes:
        name: the name.
        number: counts up from 1.
        created: when, in seconds since 1970.
        reference: what was installed.
        tag: the version's tag where it has one, else "".
        model_version: the model's version as the package states it; "" where it states none, and in
            records of older versions of ortpkg.
        digest: of its manifest.
        tree: key of its tree.
        folder: the name of the package's folder in there.
        variants: what was chosen, ``component/variant`` each.
        why: why that, for people.
        asked: by which wishes, ``key=value`` each, so that a newer version is chosen by the same.
        nbytes: of the files that are here.
        full_nbytes: of all that the package has.
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
        """Whether both install the same, at whatever time and for whatever reason."""
        return _without_circumstances(self) == _without_circumstances(other)


def _without_circumstances(generation: Generation) -> Generation:
    return replace(generation, number=0, created=0.0, why="", model_version="")


def check_name(name: str) -> str:
    """``name``. PackageReferenceError where no package may be installed under it."""
    if not is_store_name(name) or why_not_a_name(name) is not None:
        raise PackageReferenceError(
            f"{quoted(name)} is no name for an installed package: at most 128 lower-case"
            " letters and digits, with . _ - inside",
            reference=name,
        )
    return name


def installed_names(folder: StoreFolder) -> list[str]:
    """Names under which something is, or was being, installed."""
    return [name for name in names_in(folder.names) if is_store_name(name)]


def current_generation(folder: StoreFolder, name: str) -> Generation | None:
    """The generation in use; None where the name has none. StoreError where that is damaged."""
    path = f"{folder.root}/names/{name}/{_CURRENT}"  # one path fewer for each of a thousand
    document = read_json(path)
    return None if document is None else _generation_of(path, document, name)


def generations(folder: StoreFolder, name: str) -> Iterator[Generation]:
    """All generations of a name, the newest first. StoreError where a record is damaged."""
    for number in sorted(_numbers(folder, name), reverse=True):
        if (found := read_generation(folder, name, number)) is not None:
            yield found


def read_generation(folder: StoreFolder, name: str, number: int) -> Generation | None:
    """One record; None where there is none."""
    path = _place(folder, name, number) / _RECORD
    document = read_json(path)
    return None if document is None else _generation_of(path, document, name)


def record_generation(folder: StoreFolder, wanted: Generation) -> Generation:
    """Writes a record with the next free number; nothing uses it yet."""
    base = folder.names / check_name(wanted.name) / "generations"
    for _ in range(_MOST_ATTEMPTS):
        number = max(_numbers(folder, wanted.name), default=0) + 1
        made = replace(wanted, number=number, created=time.time())
        staging = folder.new_staging()
        try:
            folder.operations.make_directory(staging)
            folder.operations.write_file(staging / _RECORD, dump_json(_to_json(made)))
            folder.operations.fsync_directory(staging)
            folder.make_folder(base)
            folder.operations.place(staging, _place(folder, wanted.name, number))
            folder.operations.fsync_directory(base)
        except (FileExistsError, FileNotFoundError):  # another took it, or the name was taken away
            folder.remove_quietly(staging)
            continue
        except OSError:
            folder.remove_quietly(staging)
            raise
        return made
    raise FileExistsError(f"no free number for {quoted(wanted.name)}")


def switch_to(folder: StoreFolder, generation: Generation) -> None:
    """Makes a generation the one in use: all who ask afterwards get it."""
    path = folder.names / generation.name / _CURRENT
    folder.write_json(path, {**_to_json(generation), "activated": time.time()})


def remove_generation(folder: StoreFolder, generation: Generation) -> None:
    """Takes a record away, durably."""
    path = _place(folder, generation.name, generation.number)
    folder.discard(path)
    with contextlib.suppress(FileNotFoundError):
        folder.operations.fsync_directory(path.parent)


def remove_name(folder: StoreFolder, name: str) -> None:
    """Takes a name away with all its generations, in one step."""
    folder.discard(folder.names / name)


def find_generation(
    folder: StoreFolder, name: str, *, tag: str | None = None, digest: str | None = None
) -> Generation:
    """The generation that a name, and a tag or digest, mean: without them the one in use.

    The newest of several with that tag.

    Raises:
        PackageNotInstalledError: there is none; the message says which there are.
        PackageReferenceError: that is no name.
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
    found = list(generations(folder, name))
    for generation in found:
        if tag in (None, generation.tag) and digest in (None, generation.digest):
            return generation
    version = f"{name}:{tag}" if digest is None else f"{name}@{digest}"
    there = ", ".join(
        dict.fromkeys(quoted(each.tag) if each.tag else each.digest for each in found)
    )
    raise PackageNotInstalledError(
        f"{quoted(version)} is not installed; of {quoted(name)} there is {there}", name=version
    )


def _numbers(folder: StoreFolder, name: str) -> list[int]:
    return [
        int(each)
        for each in names_in(folder.names / name / "generations")
        if _NUMBER.fullmatch(each)
    ]


def _place(folder: StoreFolder, name: str, number: int) -> Path:
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
