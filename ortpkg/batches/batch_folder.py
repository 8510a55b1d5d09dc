"""The output of a batch: its parts, what the job is, and which of them are done.

``.ortpkg-batch`` in it holds ``job.json``, the rows that failed (``errors/``), the parts of which
all rows did (``empty/``), how often workers began with one (``attempts/``), and what is not yet
whole (``scratch/``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ortpkg.batches.input_files import RowFormat
from ortpkg.batches.output_parts import part_path, write_part
from ortpkg.batches.parts import Part
from ortpkg.batches.rows import RowError, Rows
from ortpkg.errors import UsageError, quoted
from ortpkg.storage.file_lock import hold_lock
from ortpkg.storage.file_replacement import replace_file

OWN = ".ortpkg-batch"
_JOB = "job.json"
#: Folders of one run of a job.
_OF_A_RUN = ("attempts", "scratch")
_MOST_JOB_NBYTES = 1 << 28
#: What has to be the same for a job to go on, and how that is said.
_COMPARED: dict[str, str] = {
    "package": "the package",
    "inputs": "the input files, their sizes or times",
    "part_rows": "--part-rows",
    "format": "--format",
    "columns": "--map",
    "kept": "--keep",
    "has_errors": "--errors",
    "resizes": "--resize",
}


class BatchFolder:
    """The folder that a batch writes.

    Args:
        root: the folder.
        kind: the format of its parts.
    """

    def __init__(self, root: Path, kind: RowFormat) -> None:
        self.root = root
        self.kind = kind
        self._own = root / OWN

    # --- the job ----------------------------------------------------------------------------------

    def begin(self, job: Mapping[str, Any]) -> None:
        """Makes the folder for a new job. UsageError where something is there already."""
        verify_is_free(self.root)
        try:
            for name in ("errors", "empty", *_OF_A_RUN):
                (self._own / name).mkdir(parents=True, exist_ok=True)
            with self.held():
                verify_is_free(self.root)  # another command may have begun since
                self._write_job(job)
        except OSError as error:
            raise UsageError(
                f"--output {quoted(self.root)} cannot be written: {error.strerror or error}"
            ) from error

    def go_on(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The job that is there, which must be this one. UsageError where it is another."""
        there = read_job(self.root)
        differing = [text for key, text in _COMPARED.items() if there.get(key) != job.get(key)]
        if differing:
            raise UsageError(
                f"--resume: {quoted(self.root)} is of another batch: {', '.join(differing)} differ;"
                " give the same, or another --output"
            )
        with self.held():  # or another command would lose what it is writing
            self.finish()
            for name in _OF_A_RUN:
                (self._own / name).mkdir(parents=True, exist_ok=True)
        return there

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other command of this machine writes here as long. UsageError where one does."""
        try:
            with hold_lock(self._own / "lock"):
                yield
        except TimeoutError as error:
            raise UsageError(
                f"--output {quoted(self.root)}: another command writes there now"
            ) from error

    def _write_job(self, job: Mapping[str, Any]) -> None:
        text = json.dumps(job, indent=1)
        replace_file(self._own / _JOB, lambda file: file.write(text.encode()))

    # --- parts ------------------------------------------------------------------------------------

    def written(self, parts: Iterable[Part]) -> set[int]:
        """The numbers of the parts that are there, whole."""
        there = set(_names(self.root)) | {f"{name}.empty" for name in _names(self._own / "empty")}
        return {
            part.number
            for part in parts
            if part_path(self.root, part.name, self.kind).name in there
            or f"{part.name}.empty" in there
        }

    def write(self, part: Part, rows: Rows) -> None:
        """Writes what a part gave: first the rows that failed, then the others, which is its end.

        UsageError as :func:`~ortpkg.batches.output_parts.write_part`.
        """
        if rows.errors:
            lines = "".join(json.dumps(asdict(each)) + "\n" for each in rows.errors)
            self._put(self._own / "errors" / f"{part.name}.jsonl", lines)
        if len(rows.row_ids):
            target = part_path(self.root, part.name, self.kind)
            write_part(target, rows, self.kind, self._own / "scratch")
        else:
            self._put(self._own / "empty" / part.name, "")

    def attempt(self, part: Part) -> int:
        """Notes that a worker begins with a part; returns for which time in this run of the job."""
        path = self._own / "attempts" / part.name
        try:
            with path.open("ab") as file:
                file.write(b".")
            return path.stat().st_size
        except OSError as error:
            raise UsageError(f"cannot write {quoted(path)}: {error.strerror or error}") from error

    @staticmethod
    def _put(path: Path, text: str) -> None:
        try:
            replace_file(path, lambda file: file.write(text.encode()))
        except OSError as error:
            raise UsageError(f"cannot write {quoted(path)}: {error.strerror or error}") from error

    # --- the end ----------------------------------------------------------------------------------

    def errors(self, parts: Iterable[Part]) -> Iterable[RowError]:
        """The rows that failed, of all parts, in order."""
        for part in parts:
            path = self._own / "errors" / f"{part.name}.jsonl"
            if path.is_file():
                for line in path.read_text(encoding="utf-8").splitlines():
                    yield RowError(**json.loads(line))

    def finish(self) -> None:
        """Removes what is needed no more; the job stays, to be known again."""
        for name in _OF_A_RUN:
            shutil.rmtree(self._own / name, ignore_errors=True)


def verify_is_free(root: Path) -> None:
    """UsageError where the folder of a new batch has something in it, or is none.

    A batch that ended before its first part was written is nothing.
    """
    if root.is_dir():
        there = [name for name in _names(root) if name != OWN]
        if (root / OWN / _JOB).is_file() and (there or _names(root / OWN / "empty")):
            raise UsageError(
                f"--output {quoted(root)} has parts of a batch already: --resume goes on with it,"
                " or name another folder"
            )
        if there:
            raise UsageError(
                f"--output {quoted(root)} is not empty: name another folder, or one that is new"
            )
    elif root.exists() or root.is_symlink():
        raise UsageError(f"--output {quoted(root)} is no folder")


def read_job(root: Path) -> dict[str, Any]:
    """What a batch wrote down of itself. UsageError where there is none to go on with."""
    path = root / OWN / _JOB
    try:
        if path.stat().st_size > _MOST_JOB_NBYTES:
            raise ValueError("it is too long")
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("it is no object")
    except FileNotFoundError:
        raise UsageError(
            f"--resume: {quoted(root)} has no batch to go on with; leave --resume out to begin one"
        ) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--resume: cannot read {quoted(path)}: {error}") from error
    return found


def write_errors(path: Path, errors: Iterable[RowError]) -> int:
    """Writes rows that failed as JSON lines, whole or not at all; returns how many.

    UsageError where it cannot be written.
    """
    lines = [json.dumps(asdict(each)) + "\n" for each in errors]
    try:
        replace_file(path, lambda file: file.write("".join(lines).encode()))
    except OSError as error:
        raise UsageError(
            f"--errors {quoted(path)} cannot be written: {error.strerror or error}"
        ) from error
    return len(lines)


def inputs_json(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The input files as a job knows them again: by path, size and time of the last change."""
    found = []
    for file in files:
        status = file.stat()
        found.append({"file": str(file), "nbytes": status.st_size, "changed": status.st_mtime_ns})
    return found


def _names(folder: Path) -> Collection[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return []
