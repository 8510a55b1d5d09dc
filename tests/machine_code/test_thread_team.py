from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortpkg.compiler.machine_code.executable_memory import ExecutableCode, map_code
from ortpkg.compiler.machine_code.thread_team import LeftLaunch, ThreadTeam
from ortpkg.foundations.host.cores import usable_cores
from tests.machine_code.native_code import COUNT, native_code

CODE = native_code(COUNT)


def workers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("ortpkg-worker-")]


def soon(done: object) -> None:
    """Waits until the function is true; nobody reaches the limit."""
    assert callable(done)
    for _ in range(6000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def use(team: ThreadTeam, code: ExecutableCode, launch: LeftLaunch | None = None) -> int:
    """Borrow the team for a run that ends at once; return the address that it got."""
    run = threading.Lock()
    with run:
        return team.borrow(run, code, CODE.functions, launch)


@pytest.fixture
def code() -> Iterator[ExecutableCode]:
    with map_code(CODE.data) as mapped:
        yield mapped


def test_workers_are_made_when_they_are_first_asked_for(code: ExecutableCode) -> None:
    team = ThreadTeam(4)
    assert team.thread_count == 4
    assert workers() == []
    address = use(team, code)
    assert address != 0
    assert [each.name for each in workers()] == [f"ortpkg-worker-{n}" for n in (1, 2, 3)]
    assert all(each.daemon for each in workers())
    assert use(team, code) == address
    team.close()
    assert workers() == []


def test_a_team_helps_one_run_at_a_time(code: ExecutableCode) -> None:
    team = ThreadTeam(2)
    run = threading.Lock()
    with run:
        assert team.borrow(run, code, CODE.functions) != 0
        assert use(team, code) == 0
    assert use(team, code) != 0
    team.close()
    assert use(team, code) == 0


def test_an_interrupted_run_leaves_the_team_to_the_next_one(code: ExecutableCode) -> None:
    team, run = ThreadTeam(2), threading.Lock()
    with pytest.raises(KeyboardInterrupt), run:
        _borrow_and_fail(team, run, code)
    assert use(team, code) != 0
    team.close()


def _borrow_and_fail(team: ThreadTeam, run: threading.Lock, code: ExecutableCode) -> None:
    assert team.borrow(run, code, CODE.functions) != 0
    raise KeyboardInterrupt


def test_workers_that_an_interrupt_kept_from_being_made_are_made_by_the_next_run(
    code: ExecutableCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, start = ThreadTeam(3), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            use(team, code)
    assert use(team, code) != 0
    soon(lambda: len(workers()) == 2)
    team.close()
    assert workers() == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are chosen on Linux")
def test_workers_stay_off_the_core_that_their_leader_is_on(
    code: ExecutableCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("there is one core")
    team = ThreadTeam(2)
    for core in sorted(cores)[:2]:
        monkeypatch.setattr(
            "ortpkg.compiler.machine_code.thread_team.current_core", lambda core=core: core
        )
        use(team, code)
        (native_id,) = [each.native_id for each in workers() if each.native_id is not None]
        assert os.sched_getaffinity(native_id) == cores - {core}
    assert os.sched_getaffinity(0) == cores
    team.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are chosen on Linux")
def test_workers_leave_no_core_that_their_process_was_limited_to(code: ExecutableCode) -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("there is one core")
    team = ThreadTeam(2)
    try:
        for core in sorted(cores)[:2]:
            native_ids = [each.native_id for each in workers() if each.native_id is not None]
            for thread in (0, *native_ids):
                os.sched_setaffinity(thread, {core})
            use(team, code)
            for native_id in native_ids:
                assert os.sched_getaffinity(native_id) == {core}, "it left the process's core"
        assert native_ids, "there were workers to limit"
    finally:
        os.sched_setaffinity(0, cores)
        team.close()


def test_a_launch_is_held_until_the_last_worker_has_left_it(code: ExecutableCode) -> None:
    class Launch:
        helpers = 1

    launches = [Launch(), Launch(), Launch()]
    held = [weakref.ref(each) for each in launches]
    team = ThreadTeam(2)
    for each in launches:
        use(team, code, each)
        each.helpers = 0 if each is launches[0] else 1
    del each
    launches.clear()
    gc.collect()
    assert [reference() is None for reference in held] == [True, False, False]
    team.close()


def test_one_thread_needs_no_workers(code: ExecutableCode) -> None:
    team = ThreadTeam(1)
    assert use(team, code) == 0
    assert workers() == []


def test_by_default_there_is_a_thread_for_each_core() -> None:
    assert ThreadTeam().thread_count == usable_cores()
    assert ThreadTeam(1_000_000).thread_count == 256


def test_more_threads_than_cores_do_not_spin() -> None:
    assert ThreadTeam(usable_cores()).spins > 0
    assert ThreadTeam(usable_cores() + 1).spins == 0


def test_a_team_that_nobody_uses_ends_its_threads(code: ExecutableCode) -> None:
    team = ThreadTeam(3)
    use(team, code)
    del team
    gc.collect()
    soon(lambda: workers() == [])


def test_workers_outlive_the_hold_of_the_code_that_they_are_in() -> None:
    team = ThreadTeam(3)
    mapped = map_code(CODE.data + b"\0")
    use(team, mapped)
    mapped.close()
    time.sleep(0.05)
    team.close()
    assert workers() == []


def test_where_the_system_has_no_more_threads_runs_are_computed_alone(
    code: ExecutableCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if thread.name == "ortpkg-worker-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    team = ThreadTeam(3)
    assert use(team, code) == 0
    assert use(team, code) == 0
    soon(lambda: workers() == [])
    team.close()


def test_teams_that_come_and_go_leave_nothing(code: ExecutableCode) -> None:
    for _ in range(50):
        team = ThreadTeam(3)
        use(team, code)
        team.close()
        team.close()
    assert workers() == []


PROGRAM = """
import os, sys, threading
from ortpkg.compiler.machine_code.executable_memory import map_code
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
code = map_code(open(sys.argv[1], "rb").read())
functions = eval(sys.argv[2])
team = ThreadTeam(3)
run = threading.Lock()
run.acquire()
assert team.borrow(run, code, functions)
"""
FORK = """
child = os.fork()
if child == 0:  # the team was lent in the parent, and has threads there
    other = threading.Lock()
    with other:
        assert team.borrow(other, code, functions)
    assert threading.active_count() == 3, threading.enumerate()
    team.close()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize(("rest", "printed"), [("", ""), (FORK, "7\n")], ids=["exit", "fork"])
def test_a_process_ends_and_forks_while_workers_sleep(
    rest: str, printed: str, tmp_path: Path
) -> None:
    path = tmp_path / "code"
    path.write_bytes(CODE.data)
    done = subprocess.run(  # noqa: PLW1510 - the exit code is what is tested
        [sys.executable, "-W", "ignore", "-c", PROGRAM + rest, path, repr(dict(CODE.functions))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)
