"""The number of cores that a container's quota of CPU time leaves, on made-up trees of groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.host import cores
from tests.fake_blas import install_fake_blas
from tests.session.conftest import session_of

GROUP = "proc/self/cgroup"
V2 = "sys/fs/cgroup"
#: Name → files of the tree, number of cores.
TREES: dict[str, tuple[dict[str, str], int | None]] = {
    "no control groups": ({}, None),
    "version 2, no limit": ({GROUP: "0::/\n", f"{V2}/cpu.max": "max 100000\n"}, None),
    "version 2, a container": ({GROUP: "0::/\n", f"{V2}/cpu.max": "100000 100000\n"}, 1),
    "version 2, part of a core": ({GROUP: "0::/\n", f"{V2}/cpu.max": "25000 100000\n"}, 1),
    "version 2, two and a half": ({GROUP: "0::/\n", f"{V2}/cpu.max": "250000 100000\n"}, 3),
    "version 2, a service": (
        {
            GROUP: "0::/system.slice/a.service\n",
            f"{V2}/system.slice/cpu.max": "400000 100000\n",
            f"{V2}/system.slice/a.service/cpu.max": "200000 100000\n",
        },
        2,
    ),
    "version 2, a limit around it": (
        {
            GROUP: "0::/pods/a\n",
            f"{V2}/pods/cpu.max": "100000 50000\n",
            f"{V2}/pods/a/cpu.max": "max 100000\n",
        },
        2,
    ),
    "version 2, a group that is not seen": (
        {GROUP: "0::/../../host/a\n", f"{V2}/cpu.max": "300000 100000\n"},
        3,
    ),
    "version 1, no limit": (
        {
            GROUP: "4:cpu,cpuacct:/\n",
            f"{V2}/cpu/cpu.cfs_quota_us": "-1\n",
            f"{V2}/cpu/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "version 1, a container": (
        {
            GROUP: "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/docker/x\n",
            f"{V2}/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
            f"{V2}/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "version 1, a group": (
        {
            GROUP: "4:cpuacct,cpu:/a/b\n",
            f"{V2}/cpuacct,cpu/a/cpu.cfs_quota_us": "800000\n",
            f"{V2}/cpuacct,cpu/a/cpu.cfs_period_us": "100000\n",
            f"{V2}/cpuacct,cpu/a/b/cpu.cfs_quota_us": "50000\n",
            f"{V2}/cpuacct,cpu/a/b/cpu.cfs_period_us": "100000\n",
        },
        1,
    ),
    "nonsense": (
        {
            GROUP: "no line\n0:\n4:cpu\n",
            f"{V2}/cpu.max": "many\n",
            f"{V2}/cpu/cpu.cfs_quota_us": "100\n",
            f"{V2}/cpu/cpu.cfs_period_us": "0\n",
        },
        None,
    ),
}


@pytest.mark.parametrize(("files", "expected"), TREES.values(), ids=TREES)
def test_a_quota_is_read_from_the_groups(
    files: dict[str, str], expected: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores.quota_cores(tmp_path) == expected


@pytest.mark.parametrize(
    ("quota", "expected", "stated"), [(None, 8, 0), (3, 3, 3), (8, 8, 0), (20, 8, 0)]
)
def test_threads_are_as_many_as_cores_and_quota_allow(
    quota: int | None, expected: int, stated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_cores_to_run_on", lambda: 8)
    monkeypatch.setattr(cores, "quota_cores", lambda: quota)
    assert cores.usable_cores() == expected
    assert cores.threads_for_quota() == stated


def test_machine_code_has_a_thread_for_each_core_of_the_quota_and_more_do_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cores, "_cores_to_run_on", lambda: 8)
    monkeypatch.setattr(cores, "quota_cores", lambda: 2)
    assert ThreadTeam().thread_count == 2
    assert ThreadTeam().spins > 0
    assert ThreadTeam(3).spins == 0


@pytest.mark.parametrize(("stated", "seen"), [(0, {1, 8}), (3, {3, 8})])
def test_products_on_numpy_have_the_quotas_threads_unless_the_caller_states_others(
    stated: int, seen: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = install_fake_blas(monkeypatch)
    monkeypatch.setattr("ortpkg.runtime.session.inference_session.threads_for_quota", lambda: 1)
    text = "g (float[2] x) => (float[2] y) { y = Neg(x) }"
    with session_of(text, intra_op_num_threads=stated) as session:
        session.run(None, {"x": np.zeros(2, np.float32)})
    assert isinstance(session, ortpkg.InferenceSession)
    assert set(library.counts) == seen
