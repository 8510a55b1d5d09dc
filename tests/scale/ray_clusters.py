"""A Ray cluster of several nodes on this machine, and ``ortpkg batch`` on it in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.scale.batches.model_layout import model_layout
from ortpkg.scale.batches.package_runner import PackageRunner, PackageUse
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Rows
from ortpkg.scale.ray.cluster import load_ray
from ortpkg.selection.matching.wishes import SelectionWishes

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "sample_packages/digits.ortpackage"
#: Options of a node that works.
NODE: dict[str, Any] = {"num_cpus": 3, "include_log_monitor": False}


@contextmanager
def ray_cluster(folder: Path) -> Iterator[Any]:
    """A cluster whose head has no cores to give: its workers are on nodes that may die.

    It has the machine's own address: Ray takes a loopback one for that where it joins.
    """
    os.environ["RAY_TMPDIR"] = str(folder)  # where it notes its address, whatever else it is told
    (folder / "ray").mkdir()
    load_ray()
    from ray.cluster_utils import Cluster  # Ray reads its settings when it is imported

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
        },
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any, store: Path) -> Any:
    """A node more, with a store of its own."""
    with patch.dict(os.environ, {"ORTPKG_STORE": str(store)}):
        return cluster.add_node(**NODE)


class _Vanished:
    """A session whose device is gone."""

    def run(self, *_arguments: Any) -> Any:
        raise ExecutionProviderError("the device has vanished", ep_name="CPUExecutionProvider")


def _put_into_quarantine() -> None:
    """Makes the best variant fail, as on a machine whose device is gone."""
    wishes = SelectionWishes(backend="embedded")
    runner = PackageRunner(PackageUse(reference=str(DIGITS), wishes=wishes))
    facts = runner.facts
    layout = model_layout(facts.inputs, facts.outputs)
    runner.session = _Vanished()
    runner.run(
        Part(number=0, files=("rows",), first_row=0, file_row=0, count=1),
        Rows(row_ids=np.zeros(1, np.int64), columns={"image": np.zeros((1, 64), np.float32)}),
        RunPlan(layout=layout, columns={"image": ("image",)}, batch_size=1),
    )


def add_unlike_node(cluster: Any, state: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node more, whose records are in ``state``, and on which the best variant failed once."""
    with monkeypatch.context() as changes:
        changes.setenv("ORTPKG_STATE_DIR", str(state))
        _put_into_quarantine()
        return add_node(cluster, store)


class Batch:
    """``ortpkg batch`` on rows of the digits package.

    Args:
        rows: an npy file.
        out: the output.
        words: further options.
        package: what is run.
        folder: where the command works.
    """

    def __init__(
        self,
        rows: Path,
        out: Path,
        *words: str,
        package: str = str(DIGITS),
        folder: Path = ROOT,
    ) -> None:
        command = ["batch", package, "--input", str(rows), "--output", str(out), "--json"]
        self.log = out.with_suffix(".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ortpkg", *command, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def events(self) -> Iterator[dict[str, Any]]:
        """What it tells, as it does."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def kill(self) -> None:
        """Ends it at once, in the middle of what it does."""
        self.process.kill()
        self._close()

    def _close(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(60)

    def finish(self) -> list[dict[str, Any]]:
        """The rest of what it tells; it has to end well."""
        events = list(self.events())
        assert self._close() == 0, self.log.read_text()[-4000:]
        return events


def digest_of(out: Path, count: int) -> str:
    """The digest of a batch's whole table, sorted by row; every row has to be there once."""
    parts = sorted(out.glob("part-*"))
    row_ids = np.concatenate([np.load(part / "row_id.npy") for part in parts])
    logits = np.concatenate([np.load(part / "logits.npy") for part in parts])
    order = np.argsort(row_ids, kind="stable")
    np.testing.assert_array_equal(row_ids[order], np.arange(count))
    return hashlib.sha256(logits[order].tobytes()).hexdigest()
