"""Three stages of a batch in Ray: read, run and write.

A row of the dataset is a part. Errors are passed on as values, so that they reach the driver
unchanged and are not retried for ever.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from typing import Any

from ortpkg.foundations.errors import ClusterError, OrtpkgError
from ortpkg.scale.batches.batch_folder import BatchFolder
from ortpkg.scale.batches.batch_progress import PartDone
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.batches.part_reading import Reading
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.ray.shipping import NodeCopies, with_local_copy

#: Most times that workers may start a part and die before it is run.
MOST_ATTEMPTS = 5
#: Names of the dataset's columns.
PARTS, ROWS, DONE, FAILED = "parts", "rows", "done", "failed"


def read_parts(row: Mapping[str, Any], reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the rows of parts that are read together, part by part."""
    try:
        for part, rows in reading.rows_of(row[PARTS]):
            yield {PARTS: part, ROWS: rows, FAILED: None}
    except OrtpkgError as error:
        yield {PARTS: row[PARTS][0], ROWS: None, FAILED: error}


class RunPackage:
    """Worker that opens the package once on its node, and runs parts."""

    def __init__(
        self,
        use: PackageUse,
        plan: RunPlan,
        folder: BatchFolder,
        copies: NodeCopies,
    ) -> None:
        import ray  # this runs where Ray does alone

        self._node = node_name(ray.get_runtime_context().get_node_id())
        self._worker = f"{self._node}:{os.getpid()}"
        self._plan = plan
        self._folder = folder
        self._runner: PackageRunner | OrtpkgError
        try:
            self._runner = PackageRunner(with_local_copy(use, copies))
        except OrtpkgError as error:
            self._runner = error

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a part."""
        if row[FAILED] is not None:
            return dict(row)
        try:
            if isinstance(self._runner, OrtpkgError):
                raise self._runner
            self._verify_attempt(row[PARTS])
            outputs = self._runner.run(row[PARTS], row[ROWS], self._plan)
        except OrtpkgError as error:
            return {**row, ROWS: None, DONE: None, FAILED: error}
        done = PartDone(
            part=row[PARTS].number,
            rows=len(outputs.row_ids),
            errors=len(outputs.errors),
            worker=self._worker,
            node=self._node,
            variants=self._runner.chosen,
            notes=tuple(self._runner.notes),
        )
        return {PARTS: row[PARTS], ROWS: outputs, DONE: done, FAILED: None}

    def _verify_attempt(self, part: Part) -> None:
        """Raise ClusterError if a part killed several workers: Ray would retry it for ever."""
        before = self._folder.attempt(part) - 1
        if before >= MOST_ATTEMPTS:
            last = part.first_row + part.count - 1
            raise ClusterError(
                f"rows {part.first_row} to {last} ({part.files[0]}) ended {before} workers: one of"
                " these rows makes the model crash, or takes more memory than there is; a smaller"
                " --part-rows narrows it down"
            )


def write_part(row: Mapping[str, Any], folder: BatchFolder) -> dict[str, Any]:
    """Write the outputs of a part to the folder; return what was done, or the error."""
    if row[FAILED] is None:
        try:
            folder.write(row[PARTS], row[ROWS])
        except OrtpkgError as error:
            return {DONE: None, FAILED: error}
    return {DONE: row.get(DONE), FAILED: row[FAILED]}


def node_name(node_id: str) -> str:
    """Return a node's name for users: its host, and enough of its id to be unique on it."""
    return f"{platform.node()}/{node_id[:6]}"
