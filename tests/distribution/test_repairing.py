"""Installed packages that were damaged on the disk, made whole from where they came."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ortpkg as ort
from ortpkg.distribution.installation import install
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.repairing import repair
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import ArtifactNotFoundError, StoreError
from tests.cli.conftest import DIGITS, RunCommand
from tests.cli.conftest import ortpkg as ortpkg

MODEL = "models/classifier/cpu-fp32/model.onnx"
CPU = InstallWishes(variants=("cpu-fp32",))


@pytest.fixture
def place(layout: OciLayout) -> Path:
    """Where it is installed from."""
    return Path(layout.name.removeprefix("oci-layout:"))


@pytest.fixture
def installed(place: Path, store: PackageStore) -> Generation:
    found = install(f"oci-layout:{place}:2", name="digits", wishes=CPU).generation
    assert found is not None
    return found


def damage(store: PackageStore, path: str = MODEL) -> None:
    """Changes a byte of a file where it lies; through a hard link, the blob's too."""
    with store.open("digits") as opened:
        file = opened.root / path
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    with file.open("r+b") as written:
        written.write(content)


def is_intact(store: PackageStore) -> bool:
    with store.open("digits") as opened:
        return ort.verify(opened.root).is_intact


@pytest.mark.parametrize("path", [MODEL, "models/classifier/metadata.json"])
def test_what_is_damaged_is_fetched_again_and_nothing_else(
    installed: Generation, store: PackageStore, path: str
) -> None:
    damage(store, path)
    assert not is_intact(store)

    done = repair(installed, store=store)

    assert done.damaged == (path,)
    assert done.generation == installed == store.find("digits")
    assert done.moved_nbytes == (DIGITS / path).stat().st_size * (path == MODEL)
    assert is_intact(store)


def test_a_file_that_is_gone_comes_back(installed: Generation, store: PackageStore) -> None:
    with store.open("digits") as opened:
        (opened.root / MODEL).unlink()

    assert repair(installed, store=store).damaged == (MODEL,)

    assert is_intact(store)


def test_what_was_killed_in_the_middle_is_done_the_next_time(
    installed: Generation, store: PackageStore
) -> None:
    damage(store)
    store.discard(installed, [MODEL])
    with pytest.raises(StoreError, match="ortpkg repair digits fetches those in use again"):
        store.open("digits")

    done = repair(installed, store=store)

    assert done.generation == installed
    assert done.moved_nbytes == (DIGITS / MODEL).stat().st_size
    assert is_intact(store)


def test_what_is_intact_is_left_alone(
    installed: Generation, store: PackageStore, place: Path
) -> None:
    shutil.rmtree(place)  # nobody is asked

    assert repair(installed, store=store).damaged == ()


def test_the_same_version_comes_where_its_tag_has_moved(
    installed: Generation, store: PackageStore, layout: OciLayout, tmp_path: Path
) -> None:
    newer = shutil.copytree(DIGITS, tmp_path / "newer.ortpackage")
    ort.edit(newer, ort.PackageEdits(version="9.0"))
    publish(newer, layout, tags=["2"])
    assert layout.resolve("2").digest != installed.digest
    damage(store)

    done = repair(installed, store=store)

    assert done.generation == installed
    assert is_intact(store)


def test_nothing_is_taken_out_where_it_cannot_come_back(
    installed: Generation, store: PackageStore, place: Path
) -> None:
    shutil.rmtree(place)
    damage(store)

    with pytest.raises(ArtifactNotFoundError):
        repair(installed, store=store)

    with store.open("digits") as opened:
        assert (opened.root / "manifest.json").is_file()


def test_another_package_in_its_place_is_not_taken(store: PackageStore, tmp_path: Path) -> None:
    folder = shutil.copytree(DIGITS, tmp_path / "digits.ortpackage")
    installed = install(folder, wishes=CPU).generation
    assert installed is not None
    ort.edit(folder, ort.PackageEdits(version="9.0"))
    damage(store)

    with pytest.raises(StoreError, match=r"by now, and not the damaged .*ortpkg upgrade digits"):
        repair(installed, store=store)

    assert store.find("digits") == installed
    store.open("digits").close()


def test_the_command_says_what_it_replaced(
    installed: Generation, store: PackageStore, ortpkg: RunCommand
) -> None:
    assert ortpkg("repair").out == "digits: intact\n"
    damage(store)
    assert ortpkg("verify", "digits").code == 16

    done = ortpkg("repair", "digits", "--json").json

    assert done["failed"] == []
    (package,) = done["packages"]
    assert (package["name"], package["damaged"]) == ("digits", [MODEL])
    assert ortpkg("verify", "digits").code == 0
    assert ortpkg("repair", "other").code == 4
