"""The three stages of a batch, as Ray runs them: read, run, write.

A row of the dataset is a part. What is wrong goes along as a value, so that it reaches the driver
as the error that it is, and is not tried again and again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from typing import Any

from ortpkg.batches.batch_folder import BatchFolder
from ortpkg.batches.batch_progress import PartDone
from ortpkg.batches.package_runner import PackageRunner, PackageUse
from ortpkg.batches.part_reading import Reading
from ortpkg.batches.part_run import RunPlan
from ortpkg.batches.parts import Part
from ortpkg.errors import ClusterError, OrtpkgError
from ortpkg.ray.shipping import NodeCopies, arrived

#: How often workers may begin with a part, and end before it is run.
MOST_ATTEMPTS = 5
#: Names of columns.
PARTS, ROWS, DONE, FAILED = "parts", "rows", "done", "failed"


def read_parts(row: Mapping[str, Any], reading: Reading) -> Iterator[dict[str, Any]]:
    """The rows of parts that are read in one go, part by part."""
    try:
        for part, rows in reading.rows_of(row[PARTS]):
            yield {PARTS: part, ROWS: rows, FAILED: None}
    except OrtpkgError as error:
        yield {PARTS: row[PARTS][0], ROWS: None, FAILED: error}


class RunPackage:
    """A worker: opens the package once, on its node, and runs parts."""

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
            self._runner = PackageRunner(arrived(use, copies))
        except OrtpkgError as error:
            self._runner = error

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What a part gives."""
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
        """ClusterError for a part that ended several workers: Ray would try it for ever."""
        before = self._folder.attempt(part) - 1
        if before >= MOST_ATTEMPTS:
            last = part.first_row + part.count - 1
            raise ClusterError(
                f"rows {part.first_row} to {last} ({part.files[0]}) ended {before} workers: one of"
                " these rows makes the model crash, or takes more memory than there is; a smaller"
                " --part-rows narrows it down"
            )


def write_part(row: Mapping[str, Any], folder: BatchFolder) -> dict[str, Any]:
    """Writes the outputs of a part into the folder; returns what was done, or the error."""
    if row[FAILED] is None:
        try:
            folder.write(row[PARTS], row[ROWS])
        except OrtpkgError as error:
            return {DONE: None, FAILED: error}
    return {DONE: row.get(DONE), FAILED: row[FAILED]}


def node_name(node_id: str) -> str:
    """A node as users know it: its host, and enough of its id to tell several of one host."""
    return f"{platform.node()}/{node_id[:6]}"
