"""State in a model where its data lies now, and plan how it joins a folder that models share.

A joining model refers to the ranges that exist already; only data that it alone has comes along. So
nothing in the folder changes, each model loads by its path alone in every runtime, and no location
needs "..", a link or a session option.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from ortpkg.authoring.model_weights import ModelWeights, StoredTensor, by_file, relative_to_folder
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.authoring.sharing.shared_folder import (
    SMALLEST_SHARED_NBYTES,
    DataPosition,
    JoinedModel,
    SharedFolder,
    compose_data_file,
    whole_file,
)
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange
from ortpkg.graph.tensor_messages import with_data_at, with_empty_data


def relocated(
    model: ModelWeights, positions: Iterable[tuple[StoredTensor, DataPosition | None]]
) -> ComposedFile | None:
    """Return the ONNX file with these positions of its tensors; None if it states them already.

    All other bytes stay.

    Args:
        model: the model as it is now.
        positions: tensor and its new position, or None for one without bytes: its empty data moves
            into the model.
    """
    data = model.message.data
    replacements = {}
    for tensor, position in positions:
        if position is None:
            replacements[tensor.message.start] = with_empty_data(data, tensor.message)
        elif not _is_at(tensor, position):
            replacements[tensor.message.start] = with_data_at(
                data, tensor.message, position.location, position.offset, tensor.data.nbytes
            )
    if not replacements:
        return None
    return ComposedFile(
        tuple(
            piece
            if isinstance(piece, bytes)
            else FileRange(model.path, piece[0], piece[1] - piece[0])
            for piece in model.message.replaced(replacements)
        )
    )


def _is_at(tensor: StoredTensor, position: DataPosition) -> bool:
    """Return True if the model states this position already."""
    return (
        tensor.location is not None
        and tensor.data.offset == position.offset
        and PurePosixPath(tensor.location) == PurePosixPath(position.location)
    )


def plan_joining(
    folder: SharedFolder,
    model: ModelWeights,
    variant: str,
    smallest_embedded_nbytes: int | None = None,
) -> JoinedModel | str:
    """Plan the joining of a model, or return why it cannot join.

    :meth:`SharedFolder.accept` makes the plan real.

    Args:
        folder: the shared folder.
        model: in this folder or another one.
        variant: gives the ONNX file its name if its own is not free.
        smallest_embedded_nbytes: initializers in the model of this size and more move out if the
            folder has their content; None leaves all in the model.
    """
    return _Joining(folder, model, variant, smallest_embedded_nbytes).plan()


class _Joining:
    """Plan of one model's joining a folder."""

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
        self._positions: list[tuple[StoredTensor, DataPosition | None]] = []
        self._private: list[StoredTensor] = []

    def plan(self) -> JoinedModel | str:
        """Find a position in the folder for all of the model, or the reason why it cannot join."""
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
        self._write_model()
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
                self._positions.append((tensor, None))
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
        content, offsets = compose_data_file(tensors)
        self._add(location, content)
        for tensor in self._private:
            key = self._folder.key_of(tensor.data)
            self._joined.positions[key] = DataPosition(location, offsets[key])
            self._positions.append((tensor, self._joined.positions[key]))

    def _write_model(self) -> None:
        content = relocated(self._model, self._positions)
        self._joined.is_rewritten = content is not None
        self._joined.new_files[self._joined.model_file] = content or ComposedFile.copy_of(
            self._model.path
        )
        self._joined.used_files |= {
            position.location for _, position in self._positions if position is not None
        }

    def _add(self, location: str, content: ComposedFile) -> None:
        self._joined.new_files[location] = content
        self._joined.used_files.add(location)

    def _reserved_names(self) -> list[str]:
        return [self._joined.model_file, *self._joined.new_files]
