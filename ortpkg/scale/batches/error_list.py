"""File with the failed rows of a batch; it never overwrites another file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.foundations.storage.output_writing import write_output
from ortpkg.scale.batches.batch_folder import BatchFolder, error_line
from ortpkg.scale.batches.parts import Part


class ErrorList:
    """File with the failed rows.

    Args:
        path: Path of the file; devices such as /dev/null are always allowed.
        output: Folder of the batch.
        resume: True if the batch is resumed, so that it may have written the file before.

    Raises:
        UsageError: The batch is new and the file exists, or its path is in the output or in no
            folder.
    """

    def __init__(self, path: Path, output: Path, *, resume: bool) -> None:
        self.path = path
        self._is_device = path.is_char_device() or path.is_fifo()
        self._is_new = not os.path.lexists(path)
        if self._is_device:
            return
        if not self._is_new and not resume:
            raise UsageError(f"--errors {quoted(path)} exists already: name another file")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"--errors {quoted(path)} is in no folder: make that first")
        if path.resolve().is_relative_to(output.resolve()):
            raise UsageError(
                f"--errors {quoted(path)} is in --output, which has parts alone: name another place"
            )

    def verify_is_own(self, folder: BatchFolder, parts: Sequence[Part]) -> None:
        """Raise UsageError if the existing file is not what this batch listed before."""
        if self._is_new or self._is_device:
            return
        before = _text(folder, parts)
        try:
            nbytes = self.path.stat().st_size
            is_own = nbytes == 0 or (nbytes == len(before) and self.path.read_bytes() == before)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        if not is_own:
            raise UsageError(
                f"--errors {quoted(self.path)} exists already, and is not what this batch listed:"
                " name another file"
            )

    def write(self, folder: BatchFolder, parts: Sequence[Part]) -> None:
        """Write the failed rows of all parts, completely or not at all.

        Raises:
            UsageError: The file cannot be written, or another file has appeared.
        """
        text = _text(folder, parts)
        try:
            if self._is_new:
                replace_file(self.path, lambda file: file.write(text), replaces=False)
            else:
                write_output(self.path, lambda file: file.write(text))
        except FileExistsError as error:
            raise UsageError(
                f"--errors {quoted(self.path)} has come there while the batch ran, and stays; all"
                " parts are written: --resume with another --errors FILE lists the rows that failed"
            ) from error
        except OSError as error:
            raise _unwritable(self.path, error) from error


def _text(folder: BatchFolder, parts: Sequence[Part]) -> bytes:
    return "".join(error_line(error) for error in folder.errors(parts)).encode()


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"--errors {quoted(path)} cannot be written: {error.strerror or error}")
