"""Variant's folder that other models join: their ONNX files lie beside the data they share.

A joining model refers to the ranges that exist already; only data that it alone has comes along. So
nothing in the folder changes, each model loads by its path alone in every runtime, and no location
needs "..", a link or a session option.
"""

from __future__ import annotations

import copy
import itertools
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ortpkg.authoring.model_weights import ModelWeights, StoredTensor, by_file, relative_to_folder
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.errors import AuthoringError, quoted
from ortpkg.graph.tensor_messages import Piece, with_data_at, with_empty_data
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.paths.portable_names import folded_name
from ortpkg.storage.composed_file import ComposedFile, FileRange, Segment, Zeros

#: Smaller tensors are not worth sharing, nor taking a file apart for.
SMALLEST_SHARED_NBYTES = 1024

#: Least size of a tensor in bytes → alignment of its offset, so that it can be mapped (64 KiB on
#: Windows), and padding never takes more than a sixteenth.
_ALIGNMENTS = ((1024 * 1024, 65536), (65536, 4096), (0, 64))

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

CHECKSUM_FOLDER = "shared_weights"


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
        used_files: files of the folder that it needs, itself included.
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

    def add_data_file(self, tensors: Mapping[ContentKey, FileRange], *, by_checksum: bool) -> str:
        """Add a data file with ``tensors`` that later models can share; return its location.

        ``by_checksum`` makes it ``shared_weights/<SHA-256 of the file>/model.data``, which may
        exist already.

        Raises:
            AuthoringError: the existing file is damaged.
        """
        content, offsets = _composed(tensors)
        sha256 = content.sha256() if by_checksum else ""
        location = (
            f"{CHECKSUM_FOLDER}/{sha256}/model.data"
            if by_checksum
            else self.free_name("shared.data")
        )
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
        return location

    def place(
        self, model: ModelWeights, variant: str, *, smallest_embedded_nbytes: int | None = None
    ) -> JoinedModel | str:
        """Plan the joining of ``model``, or return why it cannot join.

        :meth:`accept` makes the plan real.

        Args:
            model: in this folder or another one.
            variant: gives the ONNX file its name if its own is not free.
            smallest_embedded_nbytes: initializers in the model of this size and more move out if
                the folder has their content; None leaves all in the model.
        """
        return _JoiningPlan(self, model, variant, smallest_embedded_nbytes).place()

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


class _JoiningPlan:
    """Plan of one model's joining."""

    def __init__(
        self,
        folder: SharedFolder,
        model: ModelWeights,
        variant: str,
        smallest_embedded_nbytes: int | None,
    ) -> None:
        self._folder = folder
        self._model = model
        self._smallest_embedded_nbytes = smallest_embedded_nbytes
        self._stays_in_folder = model.folder == folder.path
        variant_file = f"{variant}.onnx"
        names = (
            [variant_file]
            if folder.prefers_variant_names
            else [model.path.name, variant_file, "model.onnx"]
        )
        self._joined = JoinedModel(model=model, model_file=folder.free_name(*names))
        self._positions: list[tuple[StoredTensor, DataPosition]] = []
        self._private: list[StoredTensor] = []
        self._empty: list[StoredTensor] = []

    def place(self) -> JoinedModel | str:
        """Find a position in the folder for all of the model; return the reason if it cannot join.

        The folder itself changes only in :meth:`SharedFolder.accept`.
        """
        for location in self._model.context_locations:
            if reason := self._place_context(location):
                return reason
        for path, tensors in by_file(self._model.external).items():
            if path not in self._model.opaque and self._is_worth_taking_apart(path, tensors):
                self._take_apart(tensors)
            else:
                location = self._place_whole(path, tensors)
                self._positions += [
                    (tensor, DataPosition(location, tensor.data.offset)) for tensor in tensors
                ]
        self._move_out()
        self._place_private()
        self._compose_model()
        return self._joined

    def _place_context(self, location: str) -> str | None:
        """Keep the path of a context, which a node names; return the reason if it is not free."""
        path = self._model.folder / location
        key = self._folder.key_of(whole_file(path))
        if self._stays_in_folder or self._folder.whole_file_of(key) == location:
            self._joined.used_files.add(location)
        elif not self._folder.is_free(location):
            return (
                f"its compiled context {quoted(location)} has a name that is taken in the shared"
                " folder"
            )
        else:
            self._add(location, ComposedFile.copy_of(path))
            self._joined.whole_files[key] = location
        return None

    def _is_worth_taking_apart(self, path: Path, tensors: Sequence[StoredTensor]) -> bool:
        """Return True if a large tensor is elsewhere in the folder, or twice in the file."""
        first_offsets: dict[ContentKey, int] = {}
        for tensor in tensors:
            if tensor.data.nbytes < SMALLEST_SHARED_NBYTES:
                continue
            key = self._folder.key_of(tensor.data)
            position = self._folder.position_of(key)
            if position is not None and self._folder.path / position.location != path:
                return True
            if first_offsets.setdefault(key, tensor.data.offset) != tensor.data.offset:
                return True
        return False

    def _take_apart(self, tensors: Iterable[StoredTensor]) -> None:
        for tensor in tensors:
            position = self._folder.position_of(self._folder.key_of(tensor.data))
            if tensor.data.nbytes == 0:
                self._empty.append(tensor)
            elif position is not None:
                self._positions.append((tensor, position))
            else:
                self._private.append(tensor)

    def _place_whole(self, path: Path, tensors: Iterable[StoredTensor]) -> str:
        """Return the new location of the unchanged data file at ``path``."""
        whole = self._folder.key_of(whole_file(path)) if path in self._model.opaque else None
        goes_with_its_folder = not self._stays_in_folder and path.is_relative_to(self._model.folder)
        if path.is_relative_to(self._folder.path) and not goes_with_its_folder:
            location = relative_to_folder(path, self._folder.path)
        elif whole is not None and (same := self._folder.whole_file_of(whole)) is not None:
            return same
        else:
            location = self._folder.free_name(
                path.name, "weights.data", reserved_names=self._reserved_names()
            )
            self._add(location, ComposedFile.copy_of(path))
        if whole is not None:
            self._joined.whole_files[whole] = location
            return location
        for tensor in tensors:
            self._joined.positions[self._folder.key_of(tensor.data)] = DataPosition(
                location, tensor.data.offset
            )
        return location

    def _move_out(self) -> None:
        """Refer to the folder for weights in the model that it holds as well."""
        if self._smallest_embedded_nbytes is None:
            return
        for tensor in self._model.embedded:
            if tensor.data.nbytes >= self._smallest_embedded_nbytes:
                position = self._folder.position_of(self._folder.key_of(tensor.data))
                self._positions += [(tensor, position)] if position is not None else []

    def _place_private(self) -> None:
        """Write the model's own tensors from files that were taken apart to a new file."""
        if not self._private:
            return
        stem = self._joined.model_file.removesuffix(".onnx")
        location = self._folder.free_name(f"{stem}.data", reserved_names=self._reserved_names())
        tensors = {self._folder.key_of(tensor.data): tensor.data for tensor in self._private}
        content, offsets = _composed(tensors)
        self._add(location, content)
        for tensor in self._private:
            key = self._folder.key_of(tensor.data)
            self._joined.positions[key] = DataPosition(location, offsets[key])
            self._positions.append((tensor, self._joined.positions[key]))

    def _compose_model(self) -> None:
        data = self._model.message.data
        replacements = {
            tensor.message.start: with_empty_data(data, tensor.message) for tensor in self._empty
        }
        for tensor, position in self._positions:
            self._joined.used_files.add(position.location)
            if not self._is_at(tensor, position):
                replacements[tensor.message.start] = with_data_at(
                    data, tensor.message, position.location, position.offset, tensor.data.nbytes
                )
        pieces = self._model.message.replaced(replacements)
        self._joined.is_rewritten = bool(replacements)
        self._add(
            self._joined.model_file,
            ComposedFile(tuple(_segment(self._model.path, piece) for piece in pieces)),
        )

    def _is_at(self, tensor: StoredTensor, position: DataPosition) -> bool:
        """Return True if the message refers to ``position`` already."""
        if tensor.location is None or tensor.data.offset != position.offset:
            return False
        return PurePosixPath(tensor.location) == PurePosixPath(position.location)

    def _add(self, location: str, content: ComposedFile) -> None:
        self._joined.new_files[location] = content
        self._joined.used_files.add(location)

    def _reserved_names(self) -> list[str]:
        return [self._joined.model_file, *self._joined.new_files]


def whole_file(path: Path) -> FileRange:
    """Return all of a file, as a range."""
    return FileRange(path, 0, path.stat().st_size)


def _merge_trial(base: MutableMapping[_Key, _Value], trial: MutableMapping[_Key, _Value]) -> None:
    """Copy the changes of ``trial``, a trial of ``base``, to ``base``."""
    assert isinstance(trial, ChainMap)
    base.update(trial.maps[0])


def _segment(path: Path, piece: Piece) -> Segment:
    return piece if isinstance(piece, bytes) else FileRange(path, piece[0], piece[1] - piece[0])


def _composed(
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
