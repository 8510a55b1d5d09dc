"""What is in use and what is being collected exclude each other."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ortpkg.distribution.store import leases
from ortpkg.distribution.store.leases import (
    Holdings,
    announce_collection,
    finished_announcements,
    leased,
    take_lease,
)
from ortpkg.distribution.store.store_folder import StoreFolder
from ortpkg.foundations.errors import StoreError
from ortpkg.foundations.storage.file_operations import FileOperations
from tests.store.store_packages import make_old

HELD = Holdings(trees=frozenset({"t"}), blobs=frozenset({"b"}))
_HOLD = """
import os, sys, time
from pathlib import Path
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.distribution.store.leases import Holdings, take_lease
from ortpkg.distribution.store.store_folder import StoreFolder
lease = take_lease(StoreFolder(Path(sys.argv[1]), FileOperations()), Holdings(trees=frozenset("t")))
if sys.argv[2] == "leave to a child" and os.fork():
    os._exit(0)
print("held", flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
if sys.argv[2] == "leave to a child":
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> StoreFolder:
    return StoreFolder(tmp_path / "store", FileOperations())


def _process(folder: StoreFolder, what: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", _HOLD, str(folder.root), what]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_what_is_leased_is_held_until_it_is_released(folder: StoreFolder) -> None:
    lease = take_lease(folder, HELD)
    with take_lease(folder, Holdings(trees=frozenset({"u"}))):
        assert leased(folder) == HELD | Holdings(trees=frozenset({"u"}))
    assert leased(folder) == HELD
    lease.release()
    lease.release()
    assert leased(folder) == Holdings()
    assert list(folder.leases.iterdir()) == []


def test_a_lease_ends_with_its_last_user(folder: StoreFolder) -> None:
    lease = take_lease(folder, HELD)
    del lease
    assert leased(folder) == Holdings()


def test_a_killed_process_holds_nothing(folder: StoreFolder) -> None:
    with _process(folder, "wait") as process:
        assert leased(folder).trees == {"t"}
        process.send_signal(signal.SIGKILL)
    assert leased(folder) == Holdings()
    assert len(finished_announcements(folder)) == 1


def test_a_process_that_ends_takes_its_lease_along(folder: StoreFolder) -> None:
    with _process(folder, "end"):
        pass
    assert list(folder.leases.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_does_not_end_its_parents_lease(folder: StoreFolder) -> None:
    lease = take_lease(folder, HELD)
    child = os.fork()
    if child == 0:
        lease.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert leased(folder) == HELD
    lease.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_a_child_goes_on_with_the_lease_of_a_parent_that_ended(folder: StoreFolder) -> None:
    words = [sys.executable, "-c", _HOLD, str(folder.root), "leave to a child"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.wait()
        assert leased(folder).has_tree("t")
        assert finished_announcements(folder) == []


def test_who_wants_what_is_being_collected_waits(folder: StoreFolder) -> None:
    taken = threading.Event()

    def take() -> None:
        with take_lease(folder, HELD):
            taken.set()

    thread = threading.Thread(target=take)
    with announce_collection(folder, Holdings(blobs=frozenset({"b"}))):
        thread.start()
        assert not taken.wait(0.1)
        assert leased(folder) == HELD  # so that a second look spares it
    thread.join()
    assert taken.is_set()


def test_nobody_waits_for_what_he_does_not_want(folder: StoreFolder) -> None:
    with (
        announce_collection(folder, Holdings(trees=frozenset({"other"}))),
        take_lease(folder, HELD, timeout_s=0) as lease,
    ):
        assert lease.is_recorded
        assert leased(folder) == HELD


def test_a_collection_that_takes_too_long_is_an_error(folder: StoreFolder) -> None:
    with announce_collection(folder, HELD):
        (announcement,) = folder.leases.iterdir()
        with pytest.raises(StoreError, match="has been collecting what is wanted") as raised:
            take_lease(folder, HELD, timeout_s=0.05)
    assert f"says '{announcement}': try again when it is done" in str(raised.value)
    assert leased(folder) == Holdings()


@pytest.mark.skipif(sys.platform == "win32", reason="its files have owners of another kind")
def test_nobody_waits_for_a_collection_by_who_may_delete_nothing(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others may write into leases/, one of them cannot stop everybody."""
    folder.prepare()
    folder.make_folder(folder.blobs)
    folder.make_folder(folder.leases)
    (folder.leases / "x.gc").write_text("everything")
    owner = folder.blobs.stat().st_uid
    lstat = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        status = lstat(path)
        if path.suffix != ".gc":
            return status
        return os.stat_result((*status[:4], owner + 12345, *status[5:]))

    with pytest.raises(StoreError, match="has been collecting"):
        take_lease(folder, HELD, timeout_s=0)
    monkeypatch.setattr(Path, "lstat", of_another)
    take_lease(folder, HELD, timeout_s=0).release()
    folder.blobs.chmod(0o777)
    with pytest.raises(StoreError, match="has been collecting"):
        take_lease(folder, HELD, timeout_s=0)


def test_nobody_waits_for_a_collection_that_was_killed(folder: StoreFolder) -> None:
    with _process(folder, "wait") as process:
        (path,) = folder.leases.iterdir()
        path.rename(path.with_suffix(".gc"))
        process.kill()
    with take_lease(folder, Holdings(trees=frozenset({"t"})), timeout_s=0):
        assert leased(folder).has_tree("t")


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_in_a_store_that_may_not_be_written_nothing_is_recorded(tmp_path: Path, error: int) -> None:
    class ReadOnly(FileOperations):
        def before(self, operation: str, path: Path) -> None:
            raise OSError(error, os.strerror(error), str(path))

    take_lease(StoreFolder(tmp_path, FileOperations()), HELD).release()
    lease = take_lease(StoreFolder(tmp_path, ReadOnly()), HELD)
    assert not lease.is_recorded
    lease.release()


def test_of_another_machine_a_lease_is_believed_for_a_week(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take_lease(folder, HELD)
    (path,) = folder.leases.iterdir()
    foreign = path.rename(path.with_name("00000000-" + path.name.partition("-")[2]))
    monkeypatch.setattr(leases, "is_held", lambda _: False)  # as where locks are none

    assert leased(folder) == HELD
    make_old(foreign, age_s=8 * 24 * 3600)
    assert leased(folder) == Holdings()
    lease.release()


def test_where_nothing_can_be_locked_the_process_itself_is_asked(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "is_held", lambda _: None)
    lease = take_lease(folder, HELD)
    assert leased(folder) == HELD
    (path,) = folder.leases.iterdir()
    fields = path.stem.split("-")
    fields[3] = str(2**31 - 5)  # no process has that number
    path.rename(path.with_name("-".join(fields) + ".lease"))
    assert leased(folder) == Holdings()
    lease.release()


def test_a_lease_takes_less_than_a_millisecond(folder: StoreFolder) -> None:
    durations = []
    for _ in range(50):
        began = time.process_time()
        take_lease(folder, HELD).release()
        durations.append(time.process_time() - began)
    assert min(durations) < 0.001


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_plain_file_announces_no_collection(folder: StoreFolder) -> None:
    take_lease(folder, HELD).release()
    os.mkfifo(folder.leases / "pipe.gc")
    (folder.leases / "folder.gc").mkdir()
    (folder.leases / "link.gc").symlink_to(os.devnull)

    with take_lease(folder, HELD, timeout_s=0) as lease:  # an error where it would have to wait
        assert lease.is_recorded
        assert leased(folder) == HELD


@pytest.mark.skipif(sys.platform == "win32", reason="it has other pipes")
def test_what_others_put_beside_leases_stops_nobody(folder: StoreFolder, tmp_path: Path) -> None:
    take_lease(folder, HELD).release()
    (tmp_path / "secret").write_text("[]")
    os.mkfifo(folder.leases / "pipe.lease")
    (folder.leases / "link.gc").symlink_to(tmp_path / "secret")
    (folder.leases / "loop.lease").symlink_to("loop.lease")

    assert leased(folder).is_everything  # nobody can say what they mean, so gc takes nothing
    for path in folder.leases.iterdir():
        os.utime(path, (1, 1), follow_symlinks=False)
