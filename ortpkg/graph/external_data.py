"""External data of tensors: where it lies, confined to the folder that the model may read from.

Source: onnx.proto, TensorProto.external_data; docs/ExternalData.md of ONNX.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from ortpkg.errors import ExternalDataNotFoundError, ModelFileError, quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.graph.proto_text import entries_of

_LARGEST_OFFSET = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalDataInfo:
    """The entries of a tensor's ``external_data``: a relative path, and the bytes of that file.

    ``length`` is None where the tensor does not state one: the data then reaches to the end of what
    it needs.
    """

    location: str
    offset: int = 0
    length: int | None = None


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the tensor's data lies in another file."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def external_data_info(tensor: onnx.TensorProto) -> ExternalDataInfo:
    """Reads a tensor's external entries.

    ModelFileError where they are incomplete or leave the folder.
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
    """Refuses a location that is not a relative path inside the folder, on any operating system.

    Raises ModelFileError naming ``where``.
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
    """The folder that external data is read from.

    Each file is opened once, and mapped on first use.

    Args:
        folder: where locations begin.
        model: the model's file; None for a model from memory.
        with_own_links: whether links out of the folder are followed that belong to the current
            user, beside those that :func:`~ortpkg.graph.linked_files.why_not_followed` always
            follows.
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
        """The file at a checked location.

        ModelFileError naming ``where``: missing, or outside by a symbolic link.
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
