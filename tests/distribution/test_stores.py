"""Whole commands on stores that lie elsewhere, were moved, are somebody else's, or in use."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pytest

import ortpkg as ort
from ortpkg.cli.app import run
from ortpkg.distribution.installation import install
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import StoreError
from ortpkg.package.receipts import FileMode
from tests.cli.conftest import RunCommand
from tests.cli.conftest import ortpkg as ortpkg
from tests.store.store_packages import AT_ONCE

CPU = InstallWishes(variants=("cpu-fp32",))


@pytest.fixture
def installed(published_digits: Path, store: PackageStore) -> str:
    """Installs digits; the reference that it came from."""
    reference = f"oci-layout:{published_digits}:2"
    install(reference, wishes=CPU)
    return reference


def test_a_store_on_another_disk_works(
    published_digits: Path, tmp_path: Path, ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        monkeypatch.setenv("ORTPKG_STORE", folder)
        reference = f"oci-layout:{published_digits}:2"
        assert ortpkg("install", reference, "--variant", "cpu-fp32", "--name", "d").code == 0
        assert ortpkg("pull", "d", "-o", tmp_path / "copy").code == 0
        assert ort.verify(tmp_path / "copy").is_intact
        with PackageStore().open("d") as opened:
            assert opened.receipt.mode in (FileMode.REFLINK, FileMode.HARD_LINK)


def test_a_store_that_was_moved_goes_on(
    installed: str, store: PackageStore, ortpkg: RunCommand, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(store.root, tmp_path / "moved"))  # as rsync would
    shutil.rmtree(store.root)
    moved.rename(tmp_path / "elsewhere")
    environment = pytest.MonkeyPatch()
    environment.setenv("ORTPKG_STORE", str(tmp_path / "elsewhere"))
    with environment.context():
        assert ortpkg("verify", "digits").code == 0
        again = install(installed, wishes=CPU)
        assert again.moved_nbytes == 0
        assert len(PackageStore().history("digits")) == 1
        assert ortpkg("install", installed, "--variant", "cpu-int8").code == 0
        assert ortpkg("rollback", "digits").code == 0
        assert ortpkg("gc", "--now", "--keep", "1").code == 0
        assert ortpkg("verify", "digits").code == 0
    environment.undo()


@pytest.mark.skipif(
    sys.platform == "win32" or not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root may become somebody else",
)
def test_another_user_reads_and_runs_what_may_not_be_written(
    published_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = np.zeros((1, 1, 8, 8), np.float32)
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to others
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(published_digits, folder / "layout")
        monkeypatch.setenv("ORTPKG_STORE", str(folder / "store"))
        reference = f"oci-layout:{folder}/layout:2"
        install(reference, name="digits", wishes=CPU)
        ort.ModelPackage("digits").variant("cpu-fp32").create_session()  # what is loaded late
        before = _names_in(folder / "store")

        problem = _as_nobody(folder, lambda: _read_only_use(reference, image))

        assert problem == ""
        assert _names_in(folder / "store") == before


def _read_only_use(
    installed: str, image: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> None:
    assert [run(words) for words in (["list"], ["show", "digits"], ["verify", "digits"])] == [0] * 3
    session = ort.ModelPackage("digits").variant("cpu-fp32").create_session()
    (found,) = session.run(None, {session.get_inputs()[0].name: image})
    assert found.shape == (1, 10)
    for words in (
        ["install", installed, "--variant", "cuda", "--name", "digits"],
        ["uninstall", "digits"],
        ["gc", "--now"],
    ):
        assert run(words) == 4, words
    with pytest.raises(StoreError, match="it may not be written by this user: name another"):
        install(installed, name="digits", wishes=InstallWishes(variants=("cuda",)))


def _names_in(root: Path) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.parent.name not in ("leases", "uses")
    }


def _as_nobody(folder: Path, use: object) -> str:
    """What went wrong in a process of another user; "" for nothing."""
    assert callable(use)
    note = folder / "problem"
    note.touch()
    note.chmod(0o666)
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            use()
        except BaseException:  # noqa: BLE001 - it is reported, and this is the end of a child
            note.write_text(traceback.format_exc())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return note.read_text()


def test_what_a_session_has_open_outlives_uninstalling_and_gc(
    installed: str, store: PackageStore, ortpkg: RunCommand
) -> None:
    package = ort.ModelPackage("digits")
    session = package.variant("cpu-fp32").create_session()

    assert ortpkg("uninstall", "digits").code == 0
    collected = ortpkg("gc", "--now")

    assert collected.code == 0
    assert "cpu-fp32" in str(package.variant("cpu-fp32").model_path)
    again = package.variant("cpu-fp32").create_session()
    image = np.zeros((1, 1, 8, 8), np.float32)
    feed = {session.get_inputs()[0].name: image}
    assert again.run(None, feed)[0].tolist() == session.run(None, feed)[0].tolist()
    assert ort.verify(package.root).is_intact


def test_a_clock_that_was_set_back_keeps_nothing_for_ever(
    installed: str, store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, wishes=InstallWishes(variants=("cpu-int8",)))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 10 * 24 * 3600.0)

    assert store.gc().removed == ()  # all seems new
    assert ort.verify(store.open("digits").root).is_intact
    generation = install(installed, wishes=InstallWishes(variants=("cuda",))).generation
    assert generation is not None
    assert generation.number == 3
    assert store.find("digits") == generation
    assert [each.number for each in store.history("digits")] == [3, 2, 1]
    store.gc(AT_ONCE)
    assert [each.number for each in store.history("digits")] == [3]


def test_no_room_for_temporary_files_is_said(
    published_digits: Path,
    store: PackageStore,
    ortpkg: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))

    done = ortpkg("install", f"oci-layout:{published_digits}:2", "--variant", "cpu-fp32")

    assert done.code == 4
    assert "error: temporary files cannot be written: No such file or directory; free" in done.err
    assert store.packages() == ()
