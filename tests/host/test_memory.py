"""Memory of the machine and of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ortpkg.foundations.host import memory
from ortpkg.foundations.host.descendants import descendants_of
from ortpkg.foundations.host.memory import (
    DescendantMemory,
    machine_memory_nbytes,
    peak_memory_nbytes,
    physical_memory_nbytes,
    resident_nbytes,
)
from ortpkg.foundations.isolation.child import call_in_child


def test_a_limit_of_the_container_counts_where_it_is_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = tmp_path / "memory.max", tmp_path / "limit_in_bytes"
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (*limits, tmp_path / "none"))
    limits[0].write_text("max\n")
    limits[1].write_text("5000000\n")
    assert machine_memory_nbytes.__wrapped__() == 5_000_000
    limits[1].write_text("9223372036854771712\n")
    total, available = physical_memory_nbytes()
    assert machine_memory_nbytes.__wrapped__() == total
    assert total is not None
    assert available is not None
    assert 0 < available <= total


def test_a_process_holds_what_it_fills() -> None:
    before = resident_nbytes()
    hoard = np.ones(5_000_000)  # less may come from what the process has had before
    assert 20_000_000 < resident_nbytes() - before < 4 * hoard.nbytes


def test_a_process_that_is_gone_holds_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert resident_nbytes(child.pid) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells")
def test_what_a_process_has_started_counts() -> None:
    hoarder = "import time; hoard = bytes(1) * 30_000_000; print(flush=True); time.sleep(60)"
    starter = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen(
        [sys.executable, "-c", starter, hoarder], stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            beside = DescendantMemory(child.pid)
            assert 30_000_000 < beside.nbytes() < 100_000_000
        finally:
            for pid in descendants_of(child.pid):
                os.kill(pid, 9)


def test_peak_memory_is_that_of_this_program(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t 999999 kB\nVmHWM:\t   1234 kB\n")
    assert peak_memory_nbytes(status) == 1234 * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="ru_maxrss is all that there is")
def test_a_child_does_not_inherit_the_peak_of_a_large_parent() -> None:
    hoard = np.ones(40_000_000)  # 320 MB
    answer = call_in_child("ortpkg.foundations.host.memory:peak_memory_nbytes", {}, timeout_s=60)
    assert hoard.nbytes > 300_000_000
    assert answer.value < 100_000_000
