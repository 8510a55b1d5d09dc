"""Folder that models share: the position of each content in it, and the files to be added."""

from __future__ import annotations

import copy
import itertools
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ortpkg.authoring.model_weights import ModelWeights, relative_to_folder
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange, Segment, Zeros
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.paths.portable_names import folded_name

#: Smaller tensors are not worth sharing, nor taking a file apart for.
SMALLEST_SHARED_NBYTES = 1024

#: Least size of a tensor in bytes → alignment of its offset, so that it can be mapped (64 KiB on
#: Windows), and padding never takes more than a sixteenth.
_ALIGNMENTS = ((1024 * 1024, 65536), (65536, 4096), (0, 64))

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class DataPosition:
    """Position of data: a file relative to the shared folder (with ``/``), and an offset in it."""

    location: str
    offset: int


@dataclass(slots=True, kw_only=True)
class JoinedModel:
    """Plan of a model that joins the folder.

    Attributes:
        model: as it is now.
        model_file: its ONNX file, relative to the folder.
        new_files: files to write, relative to the folder.
        positions: new positions of the tensors that it brings along.
        whole_files: new locations of the opaque files that it brings along.
        used_files: files of the folder that it needs besides itself.
        is_rewritten: True if its ONNX file differs from the present one.
    """

    model: ModelWeights
    model_file: str
    new_files: dict[str, ComposedFile] = field(default_factory=dict)
    positions: dict[ContentKey, DataPosition] = field(default_factory=dict)
    whole_files: dict[ContentKey, str] = field(default_factory=dict)
    used_files: set[str] = field(default_factory=set)
    is_rewritten: bool = False


class SharedFolder:
    """Content of a folder and of the models that have joined it so far; nothing is written here.

    Attributes:
        path: the folder.
        new_files: files to write for the models that have joined, relative to the folder.
        new_nbytes: size of the new files.
    """

    def __init__(
        self,
        path: Path,
        keys: Mapping[FileRange, ContentKey],
        *,
        prefers_variant_names: bool = False,
    ) -> None:
        """Describe the folder at ``path``.

        Args:
            path: the folder.
            keys: contents of all models that stay or join: of every range, whole opaque files and
                whole context files.
            prefers_variant_names: joining models are named after their variants; otherwise they
                keep their names where possible.
        """
        self.path = path
        self.prefers_variant_names = prefers_variant_names
        self.new_files: MutableMapping[str, ComposedFile] = {}
        self.new_nbytes = 0
        self._keys = keys
        self._names: MutableMapping[str, None] = {
            folded_name(entry.name): None for entry in path.iterdir()
        }
        self._positions: MutableMapping[ContentKey, DataPosition] = {}
        self._whole_files: MutableMapping[ContentKey, str] = {}

    def trial(self) -> SharedFolder:
        """Return a copy of the folder to try something with; :meth:`take` makes it real.

        It is cheap, however much has joined.
        """
        other = copy.copy(self)
        other.new_files = ChainMap({}, self.new_files)
        other._names = ChainMap({}, self._names)
        other._positions = ChainMap({}, self._positions)
        other._whole_files = ChainMap({}, self._whole_files)
        return other

    def take(self, trial: SharedFolder) -> None:
        """Make the result of a trial of this folder real."""
        self.new_nbytes = trial.new_nbytes
        _merge_trial(self.new_files, trial.new_files)
        _merge_trial(self._names, trial._names)
        _merge_trial(self._positions, trial._positions)
        _merge_trial(self._whole_files, trial._whole_files)

    def keep(self, model: ModelWeights) -> None:
        """Leave ``model`` in the folder as it is: its data can be shared."""
        for tensor in model.external:
            if tensor.data.path not in model.opaque:
                position = DataPosition(
                    relative_to_folder(tensor.data.path, self.path), tensor.data.offset
                )
                self._positions.setdefault(self._keys[tensor.data], position)
        for path in (*model.opaque, *model.context_files):
            self._whole_files.setdefault(
                self._keys[whole_file(path)], relative_to_folder(path, self.path)
            )

    def add_data_file(self, tensors: Mapping[ContentKey, FileRange], name: str) -> None:
        """Add a data file with ``tensors`` that later models can share.

        With ``{sha256}`` in its ``name``, which becomes the digest of its content, it may exist
        already.

        Raises:
            AuthoringError: the existing file is damaged.
        """
        content, offsets = compose_data_file(tensors)
        sha256 = content.sha256() if "{sha256}" in name else ""
        location = name.format(sha256=sha256) if sha256 else self.free_name(name)
        path = self.path / location
        if not path.exists():
            self._add_file(location, content)
        elif ComposedFile.copy_of(path).sha256() != sha256:
            raise AuthoringError(
                f"{quoted(location)} in {quoted(self.path)} is damaged: its name says another"
                " SHA-256"
            )
        for key, offset in offsets.items():
            self._positions.setdefault(key, DataPosition(location, offset))

    def accept(self, joined: JoinedModel) -> None:
        """Add ``joined`` to the folder: its names are not free any more, its data can be shared."""
        for location, content in joined.new_files.items():
            self._add_file(location, content)
        for key, position in joined.positions.items():
            self._positions.setdefault(key, position)
        for key, location in joined.whole_files.items():
            self._whole_files.setdefault(key, location)

    def key_of(self, data: FileRange) -> ContentKey:
        """Return the key of a range's content; KeyError for a range of no model here."""
        return self._keys[data]

    def position_of(self, key: ContentKey) -> DataPosition | None:
        """Return the position of that content in the shared data; None if it is not there."""
        return self._positions.get(key)

    def whole_file_of(self, key: ContentKey) -> str | None:
        """Return the file that holds exactly that content; None if there is none."""
        return self._whole_files.get(key)

    def is_free(self, location: str) -> bool:
        """Return True if no name in the folder equals the first part of ``location``.

        Case is ignored.
        """
        return folded_name(PurePosixPath(location).parts[0]) not in self._names

    def _add_file(self, location: str, content: ComposedFile) -> None:
        present = self.new_files.get(location)
        self.new_nbytes += content.nbytes - (present.nbytes if present is not None else 0)
        self.new_files[location] = content
        self._names[folded_name(PurePosixPath(location).parts[0])] = None

    def free_name(self, *preferred: str, reserved_names: Iterable[str] = ()) -> str:
        """Return the first portable and free one of ``preferred``, or the last with a number."""
        reserved = {folded_name(name) for name in reserved_names}
        stem, dot, suffix = preferred[-1].rpartition(".")
        numbered = (f"{stem or 'model'}-{number}{dot}{suffix}" for number in itertools.count(2))
        for name in itertools.chain(preferred, numbered):
            if (
                why_not_a_name(name) is None
                and self.is_free(name)
                and folded_name(name) not in reserved
            ):
                return name
        raise AssertionError("there are endlessly many numbers")


def whole_file(path: Path) -> FileRange:
    """Return all of a file, as a range."""
    return FileRange(path, 0, path.stat().st_size)


def _merge_trial(base: MutableMapping[_Key, _Value], trial: MutableMapping[_Key, _Value]) -> None:
    """Copy the changes of ``trial``, a trial of ``base``, to ``base``."""
    assert isinstance(trial, ChainMap)
    base.update(trial.maps[0])


def compose_data_file(
    tensors: Mapping[ContentKey, FileRange],
) -> tuple[ComposedFile, dict[ContentKey, int]]:
    """Return a data file with each of ``tensors`` at an aligned offset, and those offsets."""
    segments: list[Segment] = []
    offsets: dict[ContentKey, int] = {}
    end = 0
    for key, data in tensors.items():
        alignment = next(
            value for least_nbytes, value in _ALIGNMENTS if data.nbytes >= least_nbytes
        )
        padding = -end % alignment
        segments += [Zeros(padding), data] if padding else [data]
        offsets[key] = end + padding
        end += padding + data.nbytes
    return ComposedFile(tuple(segments)), offsets
