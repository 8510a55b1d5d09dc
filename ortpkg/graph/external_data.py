"""Locations of tensors' external data, confined to the folder that a model may read from.

Source: onnx.proto, TensorProto.external_data; docs/ExternalData.md of ONNX.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from ortpkg.foundations.errors import ExternalDataNotFoundError, ModelFileError, quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.graph.proto_text import entries_of

_LARGEST_OFFSET = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalDataInfo:
    """The entries of a tensor's ``external_data``: a relative path, and the bytes of that file.

    ``length`` is None if the tensor has none: the data is then as long as its type and shape need.
    """

    location: str
    offset: int = 0
    length: int | None = None


def is_external(tensor: onnx.TensorProto) -> bool:
    """Return True if the tensor's data lies in another file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def external_data_info(tensor: onnx.TensorProto) -> ExternalDataInfo:
    """Read a tensor's external entries.

    Raises:
        ModelFileError: if they are incomplete, or leave the folder.
    """
    where = f"tensor {quoted(tensor.name)}"
    entries = entries_of(tensor.external_data, f"the external data of {where}")
    location = entries.get("location", "")
    check_location(location, where)
    return ExternalDataInfo(
        location=location,
        offset=_whole_number(entries.get("offset", "0"), "offset", where),
        length=_whole_number(entries["length"], "length", where) if "length" in entries else None,
    )


def _whole_number(text: str, key: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < _LARGEST_OFFSET):
        raise ModelFileError(
            f"the external data of {where} has the {key} {quoted(text)}; a whole number was"
            " expected"
        )
    return int(text)


def check_location(location: str, where: str) -> None:
    """Refuse a location that is not a relative path inside the folder, on any operating system.

    Raises:
        ModelFileError: with ``where`` in its message.
    """
    windows = PureWindowsPath(location)
    if not location or "\0" in location:
        problem = "is not a file name"
    elif PurePosixPath(location).is_absolute() or windows.drive or windows.root:
        problem = "is an absolute path"
    elif ".." in windows.parts:
        problem = "leaves the model's folder"
    elif "\\" in location:
        problem = "has a backslash; separate folders by '/'"
    else:
        return
    raise ModelFileError(f"{where} names the external file {quoted(location)}, which {problem}")


class ExternalDataFolder:
    """The folder from which external data is read.

    Each file is opened once, and mapped on first use.

    Args:
        folder: the folder that locations are relative to.
        model: the model's file; None for a model from memory.
        with_own_links: True to follow also links out of the folder that belong to the current user,
            beside those that :func:`~ortpkg.graph.linked_files.why_not_followed` always follows.
    """

    def __init__(
        self, folder: Path, *, model: Path | None = None, with_own_links: bool = False
    ) -> None:
        self.folder = folder
        self._model = model
        self._with_own_links = with_own_links
        self._files: dict[str, MappedFile] = {}
        self._lock = threading.Lock()

    def file(self, location: str, where: str) -> MappedFile:
        """Return the file at a checked location.

        Raises:
            ModelFileError: with ``where`` in its message, if the file is missing, or a symbolic
                link leads out of the folder.
        """
        with self._lock:
            if location not in self._files:
                self._files[location] = self._open(location, where)
            return self._files[location]

    def _open(self, location: str, where: str) -> MappedFile:
        check_location(location, where)
        path = self.folder / location
        try:
            reason = why_not_followed(
                path, self.folder, self._model, with_own_links=self._with_own_links
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ExternalDataNotFoundError(
                f"{where} has its data in {quoted(location)}, which is not in {quoted(self.folder)}"
            ) from error
        if reason:
            raise ModelFileError(f"{where} has its data in {quoted(location)}, which {reason}")
        return MappedFile(path.resolve())
