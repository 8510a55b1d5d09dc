"""Verification of the files that a session loads (documents, models, data) against digests.json.

The digests tell which bytes the files had when they were hashed. What an engine reads a moment
later, or maps while it runs, are bytes of the same files, but whoever can write the package can
change them in between. Files whose size, inode or times changed while a session was created are
compared again afterwards, so that a concurrent update is noticed. See docs/verification.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ortpkg.foundations.errors import DigestMismatchError, LimitExceededError, quoted
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.foundations.storage.context_file_mark import is_context_file
from ortpkg.foundations.storage.digest_cache import DigestCache, now_ns
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.foundations.storage.hashing import FileDigest, HashedFile, Progress, hash_files
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.samples import SampleSet
from ortpkg.package.integrity.digests import PackageDigests, read_digests
from ortpkg.package.package_info import PackageInfo, VariantInfo
from ortpkg.package.removed_variants import removal_error, removal_explained
from ortpkg.package.sidecar import DIGESTS_FILE, PIPELINE, SAMPLES

#: Session options whose value is a folder with further files of a model, or a file in it.
_FOLDER_OPTIONS = ("session.model_external_initializers_file_folder_path", "ep.context_file_path")
_SOURCE_OPTION = "ep.context_source_model_path"
#: Prefix of the name of a folder, relative to the model's, in which contexts of other tools may use
#: any file as weights.
_FOLDER = "//"
#: A model without one of these bytes names no other file: the key of external data, the type of
#: compiled nodes.
_TRACES = (b"location", b"EPContext")
_CHUNK_NBYTES = 1024 * 1024
#: Changes in a row that may happen while a session is created.
_MOST_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of comparing files with digests.json.

    Attributes:
        files: Files of the package that have their recorded digest, relative to its root.
        unverified: Files that could not be compared: all of them without digests.json, else those
            outside the package.
        hashed_nbytes: Number of bytes read; files that an earlier session read and that did not
            change are not read again.
    """

    files: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    hashed_nbytes: int = 0

    @property
    def is_verified(self) -> bool:
        """True if everything that is loaded was compared."""
        return bool(self.files) and not self.unverified


class PackageVerifier:
    """Verifier of the files of one package; keeps its results for :meth:`verify_again`.

    Args:
        package: The package.
        progress: Called with (file, bytes done, bytes in all).
        timeout_s: Time limit of each method in seconds, as files may have any size; None for no
            limit.
    """

    def __init__(
        self,
        package: PackageInfo,
        *,
        progress: Progress | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._package = package
        self._progress = progress
        self._timeout_s = timeout_s
        self._deadline_s: float | None = None
        self._read_record()
        self._cache = DigestCache(package.root)
        self._stamps: dict[str, FileStamp] = {}
        self._hashed_nbytes = 0

    def verify_variant(self, variant: VariantInfo) -> Verification:
        """Compare the files that a session on ``variant`` loads.

        Raises:
            DigestMismatchError: A file differs from its record, is missing or not recorded; names
                the first.
            PackageError: The variant was removed after the package was opened.
            PackageFormatError: digests.json is not valid.
            ModelError: The model matches its record, but cannot be read for the files that it
                names.
            LimitExceededError: The time limit is exceeded.
        """
        self._begin()
        with removal_explained(self._package, variant):
            return self._settled(lambda: self._compare_variant(variant))

    def _compare_variant(self, variant: VariantInfo) -> Verification:
        documents = self._compare(
            [*self._documents(variant), *([variant.model_path] if variant.model_path else ())]
        )
        if variant.model_path is None:
            return _joined(documents, self._compare(_files_below(variant.directory)))
        return _joined(documents, self._compare(self._needed_files(variant, variant.model_path)))

    def verify_samples(self, sample_sets: Iterable[SampleSet]) -> Verification:
        """Compare samples.json and the files of ``sample_sets``.

        Raises:
            OrtpkgError: See :meth:`verify_variant`.
        """
        self._begin()
        files = [self._package.root / SAMPLES]
        for sample_set in sample_sets:
            files += [
                sample_set.inputs,
                *([sample_set.expected_outputs] if sample_set.expected_outputs else ()),
            ]
            files += [sample_set.labels.file] if sample_set.labels else []
            files += (
                [sample_set.display.vocabulary]
                if sample_set.display and sample_set.display.vocabulary
                else []
            )
        return self._settled(lambda: self._compare(files))

    def verify_again(self) -> None:
        """Compare the files that changed since they were read.

        Raises:
            DigestMismatchError: See :meth:`verify_variant`.
        """
        self._begin()
        changed = [
            self._package.root / file
            for file, stamp in self._stamps.items()
            if _stamp_of(self._package.root / file) != stamp
        ]
        self._settled(lambda: self._compare(changed))

    def _read_record(self) -> None:
        self._record_stamp = _stamp_of(self._package.root / DIGESTS_FILE)
        self._recorded: PackageDigests | None = read_digests(self._package.root)

    def _settled(self, compare: Callable[[], Verification]) -> Verification:
        """Return the result of ``compare`` once the digests belong to the files that it read.

        Commands replace digests.json before any document that it records, so a document that is
        newer than the digests is not damaged.
        """
        for _ in range(_MOST_ATTEMPTS):
            try:
                return compare()
            except DigestMismatchError:
                if _stamp_of(self._package.root / DIGESTS_FILE) == self._record_stamp:
                    raise
                self._read_record()
                self.__dict__.pop("_links", None)
        return compare()

    def _begin(self) -> None:
        if self._timeout_s is not None:
            self._deadline_s = time.monotonic() + self._timeout_s

    def _report(self, file: str, done: int, total: int) -> None:
        """Report progress and check the deadline, between two blocks of a file."""
        if self._progress is not None:
            self._progress(file, done, total)
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            assert self._timeout_s is not None, "the deadline comes of it"
            raise LimitExceededError(
                f"comparing {quoted(file)} of {quoted(self._package.root)} with {DIGESTS_FILE}"
                f" passed the time limit of {time_limit_text(self._timeout_s)}",
                limit="time",
            )

    def _documents(self, variant: VariantInfo) -> Iterator[Path]:
        root = self._package.root
        component = self._package.component(variant.component_name)
        yield root / MANIFEST
        if self._package.has_pipeline:
            yield root / PIPELINE
        for source in (component.source if component else None, variant.source):
            if source is not None and source.document:
                yield root / source.document
        if variant.directory.is_dir():
            # Documents of executors lie next to the model; opening the package has read them.
            yield from sorted(
                path for path in variant.directory.glob("*.json") if path.name != DIGESTS_FILE
            )

    def _needed_files(self, variant: VariantInfo, model: Path) -> list[Path]:
        """Return the existing files that the model names; a session reports missing ones."""
        folders = [model.parent]
        for option in _FOLDER_OPTIONS:
            if value := variant.session_options.get(option):
                folders += [Path(value), Path(value).parent]
        names = self._names_in(model)
        files = [path for name in names for folder in folders if (path := folder / name).is_file()]
        weights = [
            model.parent / name.removeprefix(_FOLDER) for name in names if name.startswith(_FOLDER)
        ]
        if weights and (source := variant.session_options.get(_SOURCE_OPTION)):
            weights.append(Path(source).parent)
        for folder in weights:
            real = Path(os.path.realpath(folder))
            if real.is_relative_to(self._package.root):  # outside the package there are no digests
                files += _files_below(real)
        return files

    def _names_in(self, model: Path) -> tuple[str, ...]:
        if self._recorded is None:
            return ()
        entry = self._recorded.files.get(self._name_of(model) or "")
        cached_names = self._cache.needs(entry.digests[-1]) if entry else None
        if cached_names is not None:
            return cached_names
        names: tuple[str, ...] = ()
        if _may_name_files(model, self._report):
            from ortpkg.graph.model_signature import (
                read_model_signature,  # onnx; most models are one file
            )

            signature = read_model_signature(model)
            data = tuple(external_file.location for external_file in signature.external_files)
            names = (*data, *signature.context_files)
            if signature.has_contexts and not _are_own(model, signature.context_files):
                names = (*names, _FOLDER, *_source_folders(signature.source_models))
        if entry and len(entry.digests) == 1:
            self._cache.add_needs(entry.digests[0], names)
            self._cache.write()
        return names

    def _compare(self, paths: Iterable[Path]) -> Verification:
        unique = list(dict.fromkeys(paths))
        recorded = self._recorded
        if recorded is None:
            return Verification(unverified=tuple(map(str, unique)))
        names = {path: self._name_of(path) for path in unique}
        names_inside = list(dict.fromkeys(name for name in names.values() if name is not None))
        # A link at a recorded path is compared as the file that belongs there, not as its target.
        loaded = frozenset(names_inside)
        names_inside += [path for path, target in self._links.items() if target in loaded]
        for name in names_inside:
            self._check_size(name, recorded)
        digests = self._digests_of(names_inside)
        for name in names_inside:
            self._check(name, recorded, digests[name])
        outside = tuple(str(path) for path, name in names.items() if name is None)
        return Verification(
            files=tuple(names_inside), unverified=outside, hashed_nbytes=self._hashed_nbytes
        )

    def _digests_of(self, names: list[str]) -> dict[str, FileDigest | OSError]:
        root = self._package.root
        digests: dict[str, FileDigest | OSError] = {}
        for name in names:
            stamp = _stamp_of(root / name)
            cached = self._cache.digest(name, stamp) if stamp else None
            if stamp is not None and cached is not None:
                digests[name], self._stamps[name] = cached, stamp
        started_ns = now_ns()
        unknown = {name: root / name for name in names if name not in digests}
        for name, hashed in hash_files(unknown, progress=self._report).items():
            if isinstance(hashed, HashedFile):
                self._cache.add(name, hashed, started_ns)
                self._hashed_nbytes += hashed.digest.nbytes
                digests[name] = hashed.digest
                if hashed.stamp is not None:
                    self._stamps[name] = hashed.stamp
            else:
                digests[name] = hashed
        self._cache.write()
        return digests

    def _check_size(self, name: str, recorded: PackageDigests) -> None:
        entry = recorded.files.get(name)
        if entry is None:
            return
        try:
            nbytes = (self._package.root / name).stat().st_size
        except OSError:
            return  # reading it reports the reason
        if entry.is_far_exceeded_by(nbytes):
            problem = f"has {nbytes} bytes, where {DIGESTS_FILE} records {entry.nbytes}"
            raise self._mismatch(name, problem, expected=entry.digests[-1])

    def _check(self, name: str, recorded: PackageDigests, actual: FileDigest | OSError) -> None:
        entry = recorded.files.get(name)
        expected = entry.digests[-1] if entry else ""
        digest = actual.sha256 if isinstance(actual, FileDigest) else ""
        is_damaged = (
            entry is not None and isinstance(actual, FileDigest) and entry.has_other_size(actual)
        )
        if entry is not None and digest in entry.digests and not is_damaged:
            return
        if is_damaged:
            problem = f"has a size that {DIGESTS_FILE} contradicts, so that is damaged"
        elif entry is None and not os.path.lexists(self._package.root / name):
            root = self._package.root
            subject = f"{quoted(name)} of {quoted(root)} is neither there nor recorded: it"
            raise removal_error(subject, root)
        elif isinstance(actual, OSError):
            problem = f"cannot be read: {quoted(actual.strerror or actual)}"
        elif entry is None:
            problem = f"is not recorded in {DIGESTS_FILE}"
        else:
            problem = f"is not as recorded in {DIGESTS_FILE}: expected {expected}, found {digest}"
        raise self._mismatch(name, problem, expected=expected, actual=digest)

    def _mismatch(
        self, name: str, problem: str, *, expected: str, actual: str = ""
    ) -> DigestMismatchError:
        root = quoted(self._package.root)
        return DigestMismatchError(
            f"{quoted(name)} of {root} {problem}; ortpkg verify names all that differs and repairs"
            " it from a good copy, ortpkg repair fetches it again for an installed package",
            file=name,
            expected=expected,
            actual=actual,
            path=self._package.root,
        )

    def _name_of(self, path: Path) -> str | None:
        """Return the path relative to the root, with links resolved as an engine would.

        None if outside.
        """
        real = Path(os.path.realpath(path))
        return (
            real.relative_to(self._package.root).as_posix()
            if real.is_relative_to(self._package.root)
            else None
        )

    @cached_property
    def _links(self) -> Mapping[str, str]:
        """Target in the package of each recorded path that is a link or lies below one."""
        links: dict[str, str] = {}
        folders: dict[str, bool] = {"": False}
        for path in () if self._recorded is None else self._recorded.files:
            if self._is_link(path, folders):
                target = self._name_of(self._package.root / path)
                if target is not None and target != path:
                    links[path] = target
        return links

    def _is_link(self, path: str, known_folders: dict[str, bool]) -> bool:
        folder = path.rpartition("/")[0]
        if folder not in known_folders:
            known_folders[folder] = self._is_link(folder, known_folders)
        return known_folders[folder] or (self._package.root / path).is_symlink()


def _joined(first: Verification, second: Verification) -> Verification:
    return Verification(
        files=tuple(dict.fromkeys((*first.files, *second.files))),
        unverified=tuple(dict.fromkeys((*first.unverified, *second.unverified))),
        hashed_nbytes=max(first.hashed_nbytes, second.hashed_nbytes),
    )


def _files_below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _are_own(model: Path, contexts: Iterable[str]) -> bool:
    """Return True if the contexts are in containers of ortpkg, which name no other files."""
    paths = [model.parent / location for location in contexts]
    return bool(paths) and all(map(is_context_file, paths))


def _source_folders(sources: Iterable[str]) -> list[str]:
    """Return the folders of models that were compiled, if they are not the variant's own."""
    folders = (Path(os.path.normpath(source)).parent for source in sources)
    return [f"{_FOLDER}{folder}" for folder in folders if folder.parts[:1] == ("..",)]


def _stamp_of(path: Path) -> FileStamp | None:
    try:
        return FileStamp.of(path.lstat())
    except OSError:
        return None


def _may_name_files(model: Path, progress: Progress = lambda _file, _done, _total: None) -> bool:
    """Return True if the bytes may contain names of other files; a false alarm only costs time."""
    overlap = max(map(len, _TRACES)) - 1
    tail = b""
    with model.open("rb") as stream:
        nbytes = os.fstat(stream.fileno()).st_size
        while chunk := stream.read(_CHUNK_NBYTES):
            progress(model.name, stream.tell(), nbytes)
            window = tail + chunk
            if any(trace in window for trace in _TRACES):
                return True
            tail = window[-overlap:]
    return False
