"""Output folder of a batch: its parts, the job, and which parts are done.

``.ortpkg-batch`` in it holds ``job.json``, the failed rows (``errors/``), markers of parts without
any output row (``empty/``), size and digest of the other parts (``parts/``), and a folder of the
current run (``runs/``): how often workers started a part (``attempts/``), and incomplete files
(``scratch/``). Workers that outlive their command find that folder gone, and write nothing into the
next run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.storage.file_operations import open_unlinked
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.output_parts import part_path, write_part
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import RowError, Rows

if TYPE_CHECKING:
    import io

OWN = ".ortpkg-batch"
_JOB = "job.json"
_RUNS = "runs"
#: Failed rows, parts without output rows, and digests of the other parts.
_LISTS = ("errors", "empty", "parts")
_MOST_JOB_NBYTES = 1 << 28
#: Limit of a note, which has a line for each output of a model.
_MOST_NOTE_NBYTES = 1 << 24
#: What must be the same to resume a job, and its name for users.
_COMPARED: dict[str, str] = {
    "package": "the package",
    "inputs": "the input files, their sizes or times",
    "part_rows": "--part-rows",
    "format": "--format",
    "columns": "--map",
    "kept": "--keep",
    "axes": "--batch-axis",
    "has_errors": "--errors",
    "resizes": "--resize",
    "component": "--component",
    "variant": "--variant",
    "device": "--device",
    "ep": "--ep",
    "backend": "--backend",
    "policy": "--policy",
    "provider_options": "--provider-option",
    "same_results": "--same-results",
}


class BatchFolder:
    """Output folder of a batch.

    Args:
        root: The folder.
        kind: Format of its parts.
    """

    def __init__(self, root: Path, kind: RowFormat) -> None:
        self.root = root
        self.kind = kind
        self._state_folder = root / OWN
        self._run = self._state_folder / _RUNS

    # --- the job ----------------------------------------------------------------------------------

    @contextmanager
    def new_job(self, job: Mapping[str, Any]) -> Iterator[None]:
        """Create the folder for a new job and lock it against other commands of this machine.

        Raises:
            UsageError: The folder has content already, or another command writes there.
        """
        verify_is_free(self.root)
        self._verify_own()
        with self._output_errors():
            self._state_folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            with self._output_errors():
                self._remove_runs()
                verify_is_free(self.root)  # another command may have started since
                # left by a job that wrote no part
                shutil.rmtree(self._state_folder / "errors", ignore_errors=True)
                for name in _LISTS:
                    (self._state_folder / name).mkdir(exist_ok=True)
                self._make_run_folder()
                replace_file(
                    self._state_folder / _JOB,
                    lambda file: file.write(json.dumps(job, indent=1).encode()),
                )
            with self._removed_at_end():
                yield

    @contextmanager
    def resumed_job(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Resume the existing job, yield it, and lock the folder like :meth:`new_job`.

        Raises:
            UsageError: The existing job differs from this one.
        """
        self._verify_own()
        with self._locked():
            existing = read_job(self.root)
            differing = [
                text for key, text in _COMPARED.items() if existing.get(key) != job.get(key)
            ]
            if differing:
                raise UsageError(
                    f"--resume: {quoted(self.root)} is of another batch: {', '.join(differing)}"
                    f" {'differs' if len(differing) == 1 else 'differ'}; give the same, or another"
                    " --output"
                )
            with self._output_errors():
                self._remove_runs()
                (self._state_folder / "parts").mkdir(exist_ok=True)
                self._make_run_folder()
            with self._removed_at_end():
                yield existing

    def _verify_own(self) -> None:
        """Raise UsageError if a link leads out of the batch's own folder."""
        for name in ("", *_LISTS, _RUNS):
            path = self._state_folder / name
            if path.is_symlink():
                raise UsageError(
                    f"--output {quoted(self.root)}: {quoted(path)} is a link, which a batch neither"
                    " follows nor removes: name another folder"
                )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(hold_lock(self._state_folder / "lock"))
            except TimeoutError as error:
                raise UsageError(
                    f"--output {quoted(self.root)}: another command writes there now"
                ) from error
            except OSError as error:
                raise _unwritable(self.root, error) from error
            yield

    @contextmanager
    def _removed_at_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._remove_runs()

    def _make_run_folder(self) -> None:
        self._run = self._state_folder / _RUNS / uuid4().hex
        for name in ("attempts", "scratch"):
            (self._run / name).mkdir(parents=True)

    def _remove_runs(self) -> None:
        """Remove the folders of runs, also if workers still use them."""
        shutil.rmtree(self._state_folder / _RUNS, ignore_errors=True)

    @contextmanager
    def _output_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _unwritable(self.root, error) from error

    # --- parts ------------------------------------------------------------------------------------

    def written(self, parts: Iterable[Part]) -> set[int]:
        """Return the numbers of the parts that exist with the content that was written.

        A part that was cut or changed since is removed, so that it runs again.
        """
        file_names = set(_names(self.root)) | {
            f"{name}.empty" for name in _names(self._state_folder / "empty")
        }
        numbers: set[int] = set()
        for part in parts:
            path = part_path(self.root, part.name, self.kind)
            if f"{part.name}.empty" in file_names or (
                path.name in file_names and self._is_whole(path, part)
            ):
                numbers.add(part.number)
        return numbers

    def _is_whole(self, path: Path, part: Part) -> bool:
        """Return True if a part has its recorded size and digest; otherwise remove it."""
        try:
            recorded = _read(self._state_folder / "parts" / part.name, _MOST_NOTE_NBYTES)
            if recorded == content_text(path).encode():
                return True
        except _NotPlainError:  # a batch does not write such a thing
            pass
        except FileNotFoundError:  # killed between writing the part and its note: it runs again
            pass
        except OSError as error:
            raise UsageError(f"cannot read {quoted(path)}: {error.strerror or error}") from error
        with self._output_errors():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return False

    def write(self, part: Part, rows: Rows) -> None:
        """Write the result of a part: first its failed rows, then its output, which completes it.

        Raises:
            UsageError: See :func:`~ortpkg.scale.batches.output_parts.write_part`.
        """
        self._verify_run()
        failed = self._state_folder / "errors" / f"{part.name}.jsonl"
        if rows.errors:
            self._put(failed, "".join(error_line(error) for error in rows.errors))
        else:
            failed.unlink(missing_ok=True)  # left by a worker that ended here, on another variant
        if len(rows.row_ids):
            target = part_path(self.root, part.name, self.kind)
            write_part(target, rows, self.kind, self._run / "scratch")
            self._put(self._state_folder / "parts" / part.name, content_text(target))
        else:
            self._put(self._state_folder / "empty" / part.name, "")

    def attempt(self, part: Part) -> int:
        """Record that a worker starts a part; return how often that happened in this run."""
        path = self._run / "attempts" / part.name
        try:
            with path.open("ab") as file:
                file.write(b".")
            return path.stat().st_size
        except OSError as error:
            raise UsageError(f"cannot write {quoted(path)}: {error.strerror or error}") from error

    def _verify_run(self) -> None:
        if not self._run.is_dir():
            raise UsageError(f"the batch that wrote to {quoted(self.root)} has ended")

    @staticmethod
    def _put(path: Path, text: str) -> None:
        try:
            replace_file(path, lambda file: file.write(text.encode()))
        except OSError as error:
            raise UsageError(f"cannot write {quoted(path)}: {error.strerror or error}") from error

    def errors(self, parts: Iterable[Part]) -> Iterable[RowError]:
        """Yield the failed rows of all parts, in order."""
        for part in parts:
            path = self._state_folder / "errors" / f"{part.name}.jsonl"
            if path.is_file():
                for line in path.read_text(encoding="utf-8").splitlines():
                    yield RowError(**json.loads(line))


def content_text(path: Path) -> str:
    """Return size and SHA-256 of a part, a line for each of its files, in order of their names."""
    is_folder = path.is_dir() and not path.is_symlink()
    lines = []
    for file in sorted(path.iterdir()) if is_folder else [path]:
        with _opened(file) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
            lines.append(f"{digest} {content.tell()} {ascii(file.name) if is_folder else ''}\n")
    return "".join(lines)


class _NotPlainError(OSError):
    """A link, pipe, folder or device is where a batch writes a file."""


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise _NotPlainError(errno.EINVAL, "it is no plain file", str(path))
    with open_unlinked(path, "rb") as file:
        yield cast("io.BufferedReader", file)


def _read(path: Path, most_nbytes: int) -> bytes:
    """Return the content of a file, up to one byte past the limit."""
    with _opened(path) as file:
        return file.read(most_nbytes + 1)


def verify_is_free(root: Path) -> None:
    """Raise UsageError if the folder of a new batch has content, or is not a folder.

    A batch that ended before its first part was written does not count.
    """
    if root.is_dir():
        names = [name for name in _names(root) if name != OWN]
        if (root / OWN / _JOB).is_file() and (names or _names(root / OWN / "empty")):
            raise UsageError(
                f"--output {quoted(root)} has parts of a batch already: --resume goes on with it,"
                " or name another folder"
            )
        if names:
            raise UsageError(
                f"--output {quoted(root)} is not empty: name another folder, or one that is new"
            )
    elif root.exists() or root.is_symlink():
        raise UsageError(f"--output {quoted(root)} is no folder")


def read_job(root: Path) -> dict[str, Any]:
    """Return the recorded job of a batch.

    Raises:
        UsageError: There is none to resume.
    """
    path = root / OWN / _JOB
    try:
        content = _read(path, _MOST_JOB_NBYTES)
        if len(content) > _MOST_JOB_NBYTES:
            raise ValueError("it is too long")
        job = json.loads(content.decode())
        if not isinstance(job, dict):
            raise TypeError("it is no object")
    except FileNotFoundError:
        raise UsageError(
            f"--resume: {quoted(root)} has no batch to go on with; leave --resume out to begin one"
        ) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--resume: cannot read {quoted(path)}: {error}") from error
    return job


def inputs_json(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the input files as a job recognizes them: path, size and time of the last change."""
    entries = []
    for file in files:
        status = file.stat()
        entries.append({"file": str(file), "nbytes": status.st_size, "changed": status.st_mtime_ns})
    return entries


def _unwritable(root: Path, error: OSError) -> UsageError:
    return UsageError(f"--output {quoted(root)} cannot be written: {error.strerror or error}")


def error_line(error: RowError) -> str:
    """Return a failed row as a line of the list of failed rows."""
    return json.dumps(asdict(error)) + "\n"


def _names(folder: Path) -> Collection[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
