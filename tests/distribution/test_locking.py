"""A project's packages, settled once and installed so: the same bytes, whatever registries say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import ortpkg
from ortpkg.distribution.installation import install
from ortpkg.distribution.locking import lock_project, sync_project
from ortpkg.distribution.opening_references import use_package
from ortpkg.distribution.project.lock_file import LOCK_FILE, NO_PROFILE, read_lock
from ortpkg.distribution.project.project_file import Project, find_project
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store.collection import CollectionRules
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import (
    LockError,
    NoSuitableVariantError,
    PackageNotInstalledError,
    RegistryUnreachableError,
    UsageError,
)
from ortpkg.package.references.package_references import StoreReference

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Publishes digits as a version, each with a description of its own; its digest."""
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    source = Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))

    def publish_as(*tags: str) -> str:
        ortpkg.edit(source, ortpkg.PackageEdits(description=f"as {tags[0]}"))
        return publish(source, OciLayout(tmp_path / "shop"), tags=tags).digest

    return publish_as


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Project]:
    """A project that wants ``digits`` as its argument says."""

    def made(wanted: str, profiles: str = "") -> Project:
        (tmp_path / "ortpkg.toml").write_text(
            f'[packages.digits]\nfrom = "oci-layout:shop"\n{wanted}\n[profiles]\n{profiles}\n'
        )
        found = find_project(tmp_path)
        assert found is not None
        return found

    return made


def test_the_newest_version_that_will_do_is_locked(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1.0")
    second = shop("1.2")
    shop("2.0")
    shop("3.0rc1")
    shop("nightly")

    lock = lock_project(project('version = "<2"')).lock
    newest = lock_project(project('version = "*"')).lock

    assert lock.packages["digits"].digest == second
    assert lock.packages["digits"].version == "1.2"
    assert newest.packages["digits"].version == "2.0"


def test_a_lock_has_every_file_and_what_each_profile_runs(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1")
    machines = 'server = "plain-server"\nrtx = "rtx-workstation"'

    locked = lock_project(project("", machines)).lock.packages["digits"]

    assert locked.variants == {
        "server": ("classifier/cpu-fp32",),
        "rtx": ("classifier/cuda",),
    }
    assert locked.files["models/classifier/cuda/model.onnx"].nbytes == 53714
    assert "manifest.json" in locked.files


def test_a_lock_holds_for_a_project_that_lies_elsewhere(
    shop: Callable[..., str], project: Callable[..., Project], tmp_path: Path
) -> None:
    digest = shop("1")
    project('version = "*"')
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        for name in ("ortpkg.toml", "shop"):
            (tmp_path / folder / name).symlink_to(tmp_path / name)
    here, there = find_project(tmp_path / "here"), find_project(tmp_path / "there")
    assert here is not None
    assert there is not None
    lock_project(here)
    locked = (tmp_path / "here" / LOCK_FILE).read_bytes()
    (tmp_path / "there" / LOCK_FILE).write_bytes(locked)

    (synced,) = sync_project(there, is_frozen=True)

    assert str(tmp_path) not in locked.decode()
    assert synced.generation is not None
    assert synced.generation.digest == digest
    assert synced.generation.reference == f"oci-layout:{tmp_path}/there/shop:1"


def test_what_is_locked_stays_until_an_upgrade_is_asked_for(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    first = shop("1", "latest")
    wanted = project('tag = "latest"')
    lock_project(wanted)
    second = shop("2", "latest")

    kept = lock_project(wanted)
    foretold = lock_project(wanted, upgrade=True, is_rehearsal=True)
    again = read_lock(wanted.folder)
    upgraded = lock_project(wanted, upgrade=["digits"])

    assert not kept.is_changed
    assert kept.lock.packages["digits"].digest == first
    assert foretold.is_changed
    assert again == kept.lock
    assert upgraded.lock.packages["digits"].digest == second
    assert read_lock(wanted.folder) == upgraded.lock


def test_sync_installs_what_is_locked_whatever_the_tag_says_now(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    first = shop("1", "latest")
    wanted = project('tag = "latest"', 'rtx = "rtx-workstation"\nserver = "plain-server"')
    lock_project(wanted)
    shop("2", "latest")

    (report,) = sync_project(wanted, is_frozen=True, profile="rtx")

    installed = PackageStore().find("digits")
    assert report.generation == installed
    assert (installed.digest, installed.tag) == (first, "latest")
    assert installed.variants == ("classifier/cuda",)
    assert PackageStore().find("digits", digest=first) == installed


def test_this_machine_gets_what_it_runs_if_the_lock_has_it(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1")
    sync_project(project("", 'server = "plain-server"'))

    with pytest.raises(LockError, match="none of the project's machines"):
        sync_project(project("", 'rtx = "rtx-workstation"'))


def test_without_profiles_the_machine_that_locks_decides(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1")
    wanted = project('variants = ["cpu-int8"]')

    lock = lock_project(wanted).lock
    sync_project(wanted, is_frozen=True)

    assert lock.packages["digits"].variants == {NO_PROFILE: ("classifier/cpu-int8",)}
    assert PackageStore().find("digits").variants == ("classifier/cpu-int8",)


def test_a_frozen_sync_wants_a_lock_of_this_very_project(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1")
    with pytest.raises(LockError, match=f"no {LOCK_FILE}"):
        sync_project(project(""), is_frozen=True)
    lock_project(project(""))

    with pytest.raises(LockError, match="as the project asks"):
        sync_project(project('version = ">=1"'), is_frozen=True)
    with pytest.raises(LockError, match="other machines"):
        sync_project(project("", 'rtx = "rtx-workstation"'), is_frozen=True)
    with pytest.raises(LockError, match="did you mean"):
        sync_project(project("", 'rtx = "rtx-workstation"'), profile="rtxx")


def test_what_is_locked_and_here_needs_no_registry(
    shop: Callable[..., str], project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop("1.0")
    digest = shop("1.2")
    wanted = project('version = "*"', 'server = "plain-server"\nnpu = "intel-core-ultra-laptop"')
    sync_project(wanted, profile="server")

    def out_of_reach(reference: object) -> NoReturn:
        raise RegistryUnreachableError("models.example: no connection", registry="models.example")

    monkeypatch.setattr("ortpkg.distribution.package_sources.repository_of", out_of_reach)

    (report,) = sync_project(wanted, is_frozen=True, profile="server")
    assert report.generation is not None
    assert (report.generation.digest, report.moved_nbytes) == (digest, 0)
    assert not lock_project(wanted).is_changed
    with pytest.raises(RegistryUnreachableError):
        sync_project(wanted, is_frozen=True, profile="npu")
    PackageStore().uninstall("digits")
    with pytest.raises(RegistryUnreachableError):
        sync_project(wanted, is_frozen=True, profile="server")


def test_a_package_that_says_other_files_than_the_lock_is_not_installed(
    shop: Callable[..., str], project: Callable[..., Project]
) -> None:
    shop("1")
    wanted = project("")
    lock_project(wanted)
    path = wanted.folder / LOCK_FILE
    text = path.read_text()
    path.write_text(text.replace('"nbytes": 53714', '"nbytes": 53715'))

    with pytest.raises(LockError, match="other files"):
        sync_project(wanted, is_frozen=True)

    assert PackageStore().packages() == ()


@pytest.mark.parametrize("wanted", ['version = ">9"', 'version = "<1"'])
def test_where_no_version_will_do_the_tags_are_told(
    shop: Callable[..., str], project: Callable[..., Project], wanted: str
) -> None:
    shop("1", "nightly")

    with pytest.raises(LockError, match="it has the tags 1, nightly"):
        lock_project(project(wanted))


def test_a_machine_that_nothing_fits_is_told_when_it_is_locked(
    shop: Callable[..., str], project: Callable[..., Project], tmp_path: Path
) -> None:
    shop("1")
    wanted = project("", 'server = "no-such-profile"')

    with pytest.raises((NoSuitableVariantError, UsageError), match="no-such-profile"):
        lock_project(wanted)

    assert not (tmp_path / LOCK_FILE).exists()


def test_in_the_project_a_name_means_what_is_locked(
    shop: Callable[..., str],
    project: Callable[..., Project],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = shop("1")
    wanted = project('tag = "1"')
    lock_project(wanted)
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)

    with pytest.raises(PackageNotInstalledError, match="run ortpkg sync"):
        use_package(StoreReference(name="digits"))
    sync_project(wanted)
    shop("2")
    install(f"oci-layout:{tmp_path / 'shop'}:2")

    assert PackageStore().find("digits").digest != first
    assert PackageStore().open("digits", digest=first).root == use_package(
        StoreReference(name="digits")
    )


def test_what_a_project_has_locked_is_there_for_it_whatever_else_is_installed(
    shop: Callable[..., str], project: Callable[..., Project], tmp_path: Path
) -> None:
    locked = shop("1", "latest")
    wanted = project('tag = "latest"')
    sync_project(wanted)
    store = PackageStore()
    shop("2", "latest")
    install(f"oci-layout:{tmp_path}/shop", name="digits")

    store.gc(CollectionRules(keep=1, grace_s=-1.0))
    (synced,) = sync_project(wanted, is_frozen=True)

    assert synced.moved_nbytes == 0
    assert synced.generation is not None
    assert synced.generation.digest == locked
