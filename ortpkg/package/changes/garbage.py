"""Decide which files recovery may delete; digests.json, which names them, may come from a stranger.

An interrupted change of ours adds or removes only files that the current documents do not use: no
document names them, no model that a document names refers to them, and their bytes are those that
digests.json records. If one of them is in use, the record is not ours, and nothing is deleted. A
file that differs from its record is somebody's work and stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_rules import DOCUMENT_SHAPE
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.documents.json_documents import read_json
from ortpkg.foundations.errors import PackageError, PackageFormatError, quoted
from ortpkg.foundations.storage.hashing import HashedFile, hash_files
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER, PATH_SESSION_OPTIONS
from ortpkg.package.formats.model_search import GENAI_CONFIG
from ortpkg.package.formats.samples import read_samples
from ortpkg.package.integrity.digest_check import is_within, list_files
from ortpkg.package.integrity.digests import PackageDigests
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_folder_name
from ortpkg.package.paths.portable_names import folded_name
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE, SAMPLES

_CHUNK_NBYTES = 1024 * 1024
_MOST_JSON_NBYTES = 32 * 1024 * 1024  # the most that a reader accepts
_MOST_PATH_CHARACTERS = 4096
_FEW_PATTERNS = 100
_ASSET = re.compile(rb"sha256[:-]([0-9a-f]{64})")
_ESCAPED_ASCII = re.compile(rb"\\u00([0-7][0-9a-fA-F])")


def files_to_delete(
    root: Path, garbage: Collection[str], recorded: PackageDigests
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of ``garbage`` that may be deleted, and those that differ from the record.

    Args:
        root: the package.
        garbage: files and folders below ``root`` that digests.json calls pending.
        recorded: the content of digests.json.

    Raises:
        PackageFormatError: one of them is in use or is reached through a link; or the package
            cannot be read, so that nobody knows what is in use.
    """
    present = [path for path in garbage if os.path.lexists(root / path)]
    if not present:
        return (), ()
    for path in present:
        if any((root / folder).is_symlink() for folder in _folders_of(path)):
            raise _refusal(root, path, "is reached through a symbolic link")
    files = tuple(dict.fromkeys(file for path in present for file in _files_below(root, path)))
    used = _UsedPaths.of(root, frozenset(present))
    for path in present:
        used.check(root, path)
    used.check_models(root, files)
    hashed = hash_files({file: root / file for file in files if file in recorded.files})
    deletable = tuple(
        file for file in files if file in hashed and _is_recorded(hashed[file], recorded, file)
    )
    changed = set(files) - set(deletable)
    return deletable, tuple(file for file in files if file in changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UsedPaths:
    """Paths that a package uses, as real paths in a form that can be compared (:func:`_key`).

    Attributes:
        users: each used path, and each folder above one → what uses it.
        folders: folders of which every file is used → what uses them.
        models: every model → the folders of the files that it refers to.
    """

    users: Mapping[str, str]
    folders: Mapping[str, str]
    models: Mapping[Path, tuple[Path, ...]]

    @classmethod
    def of(cls, root: Path, garbage: Collection[str]) -> _UsedPaths:
        """Collect the paths that a package uses.

        Raises:
            PackageFormatError: the package cannot be read.
        """
        try:
            package = open_package(root)
            used = dict(_first_of_each(_used_paths(package)))
            configured = _configured_paths(package, garbage)
        except PackageError as error:
            raise PackageFormatError(
                f"a change of {quoted(root)} was interrupted, and nobody knows what of it is in"
                f" use, since the package cannot be read: {error}",
                path=root,
            ) from error
        folders = {_key(path): what for path, what in _assets_of(package, garbage)}
        folders |= {_key(path): what for path, what in configured if path.is_dir()}
        models: dict[Path, tuple[Path, ...]] = {}
        for variant in _variants_of(package):
            if variant.model_path is None:
                folders[_key(variant.directory)] = f"variant {quoted(variant.name)}, a set of files"
            else:
                data_folders = models.get(variant.model_path, ())
                models[variant.model_path] = tuple(
                    dict.fromkeys((*data_folders, *_data_folders(variant, variant.model_path)))
                )
        used |= dict(_first_of_each(configured)) | folders
        users = dict(used)
        for used_path, what in used.items():
            for folder in _folders_above(used_path):
                users.setdefault(folder, what)
        return cls(users=users, folders=folders, models=models)

    def check(self, root: Path, path: str) -> None:
        """Raise PackageFormatError if ``path`` is in use, holds something used, or lies in it."""
        key = _key(root / path)
        what = self.users.get(key)
        if what is None:
            what = next(
                (self.folders[folder] for folder in _folders_above(key) if folder in self.folders),
                None,
            )
        if what is not None:
            raise _refusal(root, path, f"is in use by {what}")

    def check_models(self, root: Path, files: Collection[str]) -> None:
        """Raise PackageFormatError if a model refers to one of ``files`` by name."""
        below: dict[Path, list[str]] = {}
        for file in files:
            for folder in (root / file).parents:
                below.setdefault(folder, []).append(file)
        for model, folders in self.models.items():
            wanted = {
                pattern: file
                for folder in folders
                for file in below.get(folder, ())
                for pattern in _patterns_of((root / file).relative_to(folder).as_posix())
            }
            pattern_found = _first_in(model, tuple(wanted)) if wanted else None
            if pattern_found is not None:
                raise _refusal(
                    root, wanted[pattern_found], f"is in use by the model {quoted(model.name)}"
                )


def _first_of_each(uses: Iterable[tuple[Path, str]]) -> Iterator[tuple[str, str]]:
    """Yield each path once, with the first thing that names it."""
    seen_keys: set[str] = set()
    for path, what in uses:
        key = _key(path)
        if key not in seen_keys:
            seen_keys.add(key)
            yield key, what


def _assets_of(package: PackageInfo, garbage: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Yield folders of shared assets that are declared, or that a remaining JSON file mentions.

    GenAI configurations refer to them too, in packages of every generation. An asset that merely
    lies in shared_assets/ may be a leftover of an interrupted change.
    """
    folders = {asset.uri: asset.path for asset in package.shared_assets}
    mentioned = {asset.uri for asset in package.shared_assets if asset.is_declared}
    for path in _documents_that_stay(package, garbage):
        content = path.read_bytes()
        content = _ESCAPED_ASCII.sub(lambda match: bytes([int(match[1], 16)]), content)
        mentioned |= {f"sha256:{digest.decode()}" for digest in _ASSET.findall(content)}
    for uri in sorted(mentioned):
        folder = folders.get(uri, package.root / ASSETS_DIRECTORY / asset_folder_name(uri))
        if os.path.lexists(folder):
            yield folder, f"shared asset {quoted(uri)}"


def _configured_paths(
    package: PackageInfo, garbage: Collection[str]
) -> tuple[tuple[Path, str], ...]:
    """Return the paths that remaining GenAI configurations name, relative to their folders.

    Raises:
        PackageFormatError: a configuration cannot be read.
    """
    uses = []
    for path in _documents_that_stay(package, garbage):
        if path.name != GENAI_CONFIG:
            continue
        what = f"{quoted(path.relative_to(package.root).as_posix())}"
        for text in _texts_in(read_json(path, document=path.relative_to(package.root).as_posix())):
            named_path = (
                Path(os.path.normpath(path.parent / text))
                if 0 < len(text) < _MOST_PATH_CHARACTERS
                else path
            )
            exists = "\0" not in text and os.path.lexists(named_path)
            if exists and not path.is_relative_to(named_path):
                uses.append((named_path, what))
    return tuple(uses)


def _texts_in(value: Any) -> Iterator[str]:
    level = [value]
    while level:
        yield from (item for item in level if isinstance(item, str))
        inner = [item.values() for item in level if isinstance(item, dict)]
        level = [*chain(*inner), *chain(*(item for item in level if isinstance(item, list)))]


def _documents_that_stay(package: PackageInfo, garbage: Collection[str]) -> Iterator[Path]:
    """Yield every JSON file that is not garbage, up to the size that a reader accepts."""
    garbage_paths = frozenset(garbage)
    for name in list_files(package.root):
        if name.endswith(".json") and not is_within(name, garbage_paths):
            path = package.root / name
            if path.is_file() and path.stat().st_size <= _MOST_JSON_NBYTES:
                yield path


def _variants_of(package: PackageInfo) -> Iterator[VariantInfo]:
    for component in package.components:
        yield from component.variants


def _used_paths(package: PackageInfo) -> Iterator[tuple[Path, str]]:
    """Yield every file and folder that a document names, with the thing that names it."""
    root = package.root
    yield from ((root / name, "every package") for name in (MANIFEST, DIGESTS_FILE))
    if package.has_pipeline:
        yield root / PIPELINE, "the pipeline"
    for component in package.components:
        what = f"component model {quoted(component.name)}"
        yield from (
            (path, what) for path in (component.directory, root / component.source.document)
        )
        for variant in component.variants:
            what = f"variant {quoted(variant.name)} of {quoted(component.name)}"
            options = [variant.session_options.get(key) for key in PATH_SESSION_OPTIONS]
            paths = [variant.directory, root / variant.source.document]
            paths += [variant.directory / option for option in options if option]
            paths += [variant.model_path] if variant.model_path is not None else []
            if variant.directory != component.directory and variant.directory.is_dir():
                # beside the model: documents of its executors
                paths += sorted(variant.directory.glob("*.json"))
            yield from ((path, what) for path in paths)
    if package.has_samples:
        yield root / SAMPLES, "the samples"
    for sample in read_samples(package):
        vocabulary = sample.display.vocabulary if sample.display else None
        labels = sample.labels.file if sample.labels else None
        for path in (sample.inputs, sample.expected_outputs, labels, vocabulary):
            if path is not None:
                yield path, f"the samples {quoted(sample.name)}"


def _data_folders(variant: VariantInfo, model: Path) -> Iterator[Path]:
    """Yield the folders in which a model's data files may lie: its own, or those of its options."""
    if not variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER) or _first_in(
        model, (b"EPContext",)
    ):
        yield model.parent
    for key in PATH_SESSION_OPTIONS:
        if option := variant.session_options.get(key):
            yield from (variant.directory / option, (variant.directory / option).parent)


def _patterns_of(location: str) -> Iterator[bytes]:
    """Yield the byte patterns of a reference to a file in a protobuf message: length, then text.

    Patterns with ``.`` or ``//`` match other spellings of the same name.
    """
    text = location.encode("utf-8", "surrogateescape")
    length = len(text)
    yield (bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])) + text
    name = text.rpartition(b"/")[2]
    yield from (b"./" + name, b"//" + name)


def _first_in(model: Path, patterns: tuple[bytes, ...]) -> bytes | None:
    find = _finder(patterns)
    overlap = max(map(len, patterns)) - 1
    tail = b""
    try:
        with model.open("rb") as stream:
            while chunk := stream.read(_CHUNK_NBYTES):
                window = tail + chunk
                if (match := find(window)) is not None:
                    return match
                tail = window[-overlap:]
    except OSError as error:
        raise PackageFormatError(
            f"{quoted(model)} cannot be read: {error.strerror}", path=model
        ) from error
    return None


def _finder(patterns: tuple[bytes, ...]) -> Callable[[bytes], bytes | None]:
    """Return a search for the first of ``patterns``: one by one if few, else all at once.

    Each pattern has at least two bytes.
    """
    if len(patterns) <= _FEW_PATTERNS:
        return lambda window: next((pattern for pattern in patterns if pattern in window), None)
    lengths: dict[int, set[int]] = {}
    for pattern in patterns:
        lengths.setdefault(pattern[0], set()).add(len(pattern))
    firsts, seconds = ({re.escape(pattern[at : at + 1]) for pattern in patterns} for at in (0, 1))
    beginning = re.compile(
        b"[" + b"".join(sorted(firsts)) + b"](?=[" + b"".join(sorted(seconds)) + b"])", re.DOTALL
    )
    wanted = frozenset(patterns)

    def find(window: bytes) -> bytes | None:
        positions = (match.start() for match in beginning.finditer(window))
        candidates = (
            window[at : at + length] for at in positions for length in lengths[window[at]]
        )
        return next((candidate for candidate in candidates if candidate in wanted), None)

    return find


def _is_recorded(hashed: HashedFile | OSError, recorded: PackageDigests, file: str) -> bool:
    return isinstance(hashed, HashedFile) and hashed.digest.sha256 in recorded.files[file].digests


def _files_below(root: Path, path: str) -> Iterator[str]:
    """Yield ``path``, or every file, link and special file in it."""
    if (root / path).is_symlink() or not (root / path).is_dir():
        yield path
        return
    for parent, directories, names in os.walk(root / path):
        links = [name for name in directories if Path(parent, name).is_symlink()]
        for name in sorted((*names, *links)):
            yield Path(parent, name).relative_to(root).as_posix()


def _folders_of(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names))]


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a real path, the nearest first."""
    while (end := path.rfind(os.sep)) > 0:
        path = path[:end]
        yield path


def _key(path: Path) -> str:
    """Return the real path in the form that file systems without case and composition compare."""
    return folded_name(os.path.realpath(path))


def _refusal(root: Path, path: str, reason: str) -> PackageFormatError:
    remedy = (
        f"delete {DIGESTS_FILE}, and the package stays as it is: the next authoring command writes"
        " it anew"
    )
    message = (
        f"calls {quoted(path)} garbage of an interrupted change, which it cannot be: it {reason}"
    )
    problem = finding(DOCUMENT_SHAPE, DIGESTS_FILE, message, pointer="/pending", remedy=remedy)
    return PackageFormatError.from_findings([problem], path=root)
