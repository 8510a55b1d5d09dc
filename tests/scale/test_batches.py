"""Batches on a cluster of two nodes: each row once, whatever is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.host.directories import cache_directory
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.scale.ray_clusters import (
    DIGITS,
    ROOT,
    Batch,
    add_node,
    add_unlike_node,
    digest_of,
    ray_cluster,
)

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("nothing lost, nothing twice"),
    pytest.mark.timeout(1800),
    # Ray leaves files and sockets open until its process ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

#: Keeps a figure for the table that is told at the end.
Figures = Callable[[str, object], None]
COUNT = int(os.environ.get("ORTPKG_SCALE_ROWS", "1000000"))
PART_ROWS = str(max(1, COUNT // 24))
OPTIONS = ("--part-rows", PART_ROWS, "--batch-size", "64")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    images = np.random.default_rng(16).integers(0, 17, (COUNT, 64), np.uint8)
    np.save(path, images)
    return path


@pytest.fixture(scope="module")
def expected(rows: Path) -> str:
    """The digest of what one process writes."""
    out = rows.with_name("alone")
    Batch(rows, out, "--in-process", *OPTIONS).finish()
    return digest_of(out, COUNT)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder)) as cluster,
    ):
        for number in range(2):
            add_node(cluster, Path(folder, f"store-{number}"))
        yield cluster


def on(cluster: Any, *words: str) -> tuple[str, ...]:
    return ("--ray", cluster.address, "--workers", "4", *OPTIONS, *words)


def test_four_workers_write_the_table_of_one_process(
    cluster: Any, rows: Path, expected: str, tmp_path: Path, record_property: Figures
) -> None:
    events = Batch(rows, tmp_path / "out", *on(cluster)).finish()
    assert digest_of(tmp_path / "out", COUNT) == expected
    assert {each["node"] for each in events if each["event"] == "part"} == {
        each["node"] for each in events[-1]["nodes"]
    }
    assert len(events[-1]["nodes"]) == 2
    record_property(
        "figures", f"{COUNT:,} rows on 2 nodes; digest {expected[:16]} as of one process"
    )


def test_a_killed_worker_and_a_killed_node_change_nothing(
    cluster: Any, rows: Path, expected: str, tmp_path: Path, record_property: Figures
) -> None:
    killed: list[str] = []
    doomed = next(iter(cluster.worker_nodes))
    with Batch(rows, tmp_path / "out", *on(cluster)) as batch:
        for event in batch.events():
            if event["event"] != "part":
                continue
            if not killed:
                killed.append(event["worker"])
                os.kill(int(event["worker"].rpartition(":")[2]), signal.SIGKILL)
            elif len(killed) == 1 and event["rows_done"] > COUNT // 3:
                killed.append("a node")
                cluster.remove_node(doomed, allow_graceful=False)
        batch.finish()
    add_node(cluster, tmp_path / "store")
    assert len(killed) == 2
    found = digest_of(tmp_path / "out", COUNT)
    assert found == expected
    record_property("figures", f"{COUNT:,} rows, a worker and a node killed; digest {found[:16]}")


def test_a_killed_command_goes_on_from_what_is_written(
    cluster: Any, rows: Path, expected: str, tmp_path: Path, record_property: Figures
) -> None:
    batch = Batch(rows, tmp_path / "out", *on(cluster))
    for event in batch.events():
        if event["event"] == "part" and event["rows_done"] > COUNT // 4:
            batch.kill()
            break
    before = {part.name: part.stat().st_ino for part in (tmp_path / "out").glob("part-*")}
    assert before
    begin, *events = Batch(rows, tmp_path / "out", *on(cluster, "--resume")).finish()
    assert begin["rows_written_before"] >= COUNT // 4
    assert sum(each["rows"] for each in events if each["event"] == "part") < COUNT
    after = {part.name: part.stat().st_ino for part in (tmp_path / "out").glob("part-*")}
    assert before.items() <= after.items()
    found = digest_of(tmp_path / "out", COUNT)
    assert found == expected
    written = begin["rows_written_before"]
    record_property("figures", f"{written:,} rows before, the rest after; digest {found[:16]}")


def test_a_cluster_of_its_own_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the name of the folder of temporary files is too long for sockets, too."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TMPDIR", "HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    np.save(tmp_path / "few.npy", np.zeros((100, 64), np.uint8))
    batch = Batch(tmp_path / "few.npy", tmp_path / "out", "--workers", "1")
    batch.finish()
    digest_of(tmp_path / "out", 100)
    left = [*Path("/tmp").glob(f"ortpkg-ray-{batch.process.pid}-*"), *tmp_path.glob("*/.ray")]
    assert left == []


@pytest.fixture
def unlike_node(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node more, on which the best variant is in quarantine."""
    node = add_unlike_node(cluster, tmp_path / "records", tmp_path / "store", monkeypatch)
    yield
    cluster.remove_node(node)


@pytest.mark.shows("each worker its own variant")
@pytest.mark.usefixtures("unlike_node")
def test_each_node_runs_its_own_variant_and_a_mix_may_be_refused(
    cluster: Any, rows: Path, tmp_path: Path, record_property: Figures
) -> None:
    words = (*on(cluster), "--backend", "embedded")
    refused = Batch(rows, tmp_path / "same", *words, "--same-results", "0")
    assert refused.process.wait(600) == 2
    assert "would run as cpu-" in refused.log.read_text()
    refused.kill()
    end = Batch(rows, tmp_path / "out", *words).finish()[-1]
    variants = [each["variant"] for node in end["nodes"] for each in node["variants"]]
    assert sorted(variants) == ["cpu-fp32", "cpu-fp32", "cpu-int8"]
    ran = (
        f"{node['node']}: {variant['variant']}, {node['rows']:,} rows"
        for node in end["nodes"]
        for variant in node["variants"]
    )
    record_property("figures", "; ".join(ran))
    digest_of(tmp_path / "out", COUNT)


@pytest.mark.shows("each worker its own variant")
def test_a_package_that_nodes_do_not_have_is_sent_to_them(
    cluster: Any, rows: Path, expected: str, tmp_path: Path
) -> None:
    before = set((cache_directory() / "shipped").glob("*"))
    folder = tmp_path / "mine"
    shutil.copytree(DIGITS, folder / "digits.ortpackage")
    # Where it leads to depends on who asks: no other process works in that folder.
    named = "/proc/self/cwd/digits.ortpackage"
    Batch(rows, tmp_path / "out", *on(cluster), package=named, folder=folder).finish()
    assert digest_of(tmp_path / "out", COUNT) == expected
    assert set((cache_directory() / "shipped").glob("*")) <= before


def test_a_process_runs_one_batch_after_another_and_its_own_pipelines_beside_them(
    cluster: Any, tmp_path: Path
) -> None:
    program = f"""
import json
import numpy as np
import ray
from pathlib import Path
from ortpkg.cli.app import run

def settings():
    context = ray.data.DataContext.get_current()
    return context.target_max_block_size, context.enable_progress_bars

ray.init(address={cluster.address!r}, log_to_driver=False)
before = settings()
lines = [json.dumps({{"image": each.tolist()}}) for each in np.ones((400, 64), np.float32)]
codes = []
for name, second in (("bad", "{{"), ("good", lines[1])):
    rows = Path({str(tmp_path)!r}, f"{{name}}.jsonl")
    rows.write_text("\\n".join([lines[0], second, *lines[2:]]))
    words = ["--input", str(rows), "--output", str(rows.with_suffix("")), "--part-rows", "40"]
    all_cores = ["--workers", "2", "--threads", "3"]
    codes.append(run(["batch", {str(DIGITS)!r}, *words, *all_cores, "--batch-size", "8"]))
print([int(code) for code in codes], settings() == before)
"""
    assert _told_by(program) == "[5, 0] True"


def test_a_published_package_is_installed_once_on_each_node_whatever_it_has_of_workers(
    cluster: Any, rows: Path, tmp_path: Path
) -> None:
    registry = InProcessRegistry()
    with running(registry):
        place = f"oci://{registry.host}/models/digits"
        ortpkg.push(DIGITS, f"{place}:1")
        registry.requests.clear()
        Batch(rows, tmp_path / "out", *on(cluster), package=f"{place}:1").finish()
    blobs = {
        path: count
        for (method, path), count in registry.requests.items()
        if method == "GET" and "/blobs/" in path
    }
    assert blobs
    assert set(blobs.values()) == {2}
    digest_of(tmp_path / "out", COUNT)


@pytest.mark.shows("each worker its own variant")
def test_the_class_for_ray_datas_own_pipelines_gives_the_same_outputs(
    cluster: Any, rows: Path, tmp_path: Path
) -> None:
    program = f"""
import numpy as np
import ray
from ortpkg.scale.ray import PackageModel

ray.init(address={cluster.address!r}, log_to_driver=False)
rows = ray.data.read_numpy({str(rows)!r}).limit(1000)
options = {{"columns": {{"image": "data"}}, "threads": 1}}
found = rows.map_batches(
    PackageModel,
    fn_constructor_args=[{str(DIGITS)!r}],
    fn_constructor_kwargs=options,
    compute=ray.data.ActorPoolStrategy(size=2),
    batch_size=128,
)
print(len(np.stack([row["logits"] for row in found.take_all()])))
"""
    assert _told_by(program) == str(min(COUNT, 1000))


def _told_by(program: str) -> str:
    """The last line that it prints; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]
