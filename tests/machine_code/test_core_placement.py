from __future__ import annotations

import os
import sys
import threading

import pytest

from ortpkg.compiler.machine_code.core_placement import current_core, restrict_to, usable_core_set


@pytest.mark.skipif(sys.platform != "linux", reason="cores are asked for on Linux")
def test_a_thread_that_is_kept_off_a_core_leaves_it() -> None:
    cores = usable_core_set()
    assert cores == os.sched_getaffinity(0)
    core = max(cores)
    found: list[int | None] = []

    def look() -> None:
        restrict_to(frozenset({core}), [threading.get_native_id()])
        found.append(current_core())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [core]
    assert usable_core_set() == cores, "other threads run where they ran"


def test_cores_that_are_not_there_change_nothing() -> None:
    cores = usable_core_set()
    restrict_to(frozenset(), [threading.get_native_id()])
    restrict_to(frozenset({1023}), [threading.get_native_id()])
    assert usable_core_set() == cores
