"""Packages by name: installed, opened, gone back to, taken away."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.store import installed_packages
from ortpkg.distribution.store.leases import take_lease
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import PackageNotInstalledError, PackageReferenceError, StoreError
from ortpkg.package.receipts import FileMode
from tests.store.store_packages import (
    AT_ONCE,
    digest_of,
    expected_package,
    install,
    manifest,
    package,
    read_package,
    receive,
    receive_blobs,
    stored,
)


def test_a_package_that_was_installed_opens_by_its_name(store: PackageStore) -> None:
    generation = install(store, 1)

    with store.open("digits") as opened:
        assert opened.root.name == "digits.ortpackage"
        assert read_package(opened.root) == expected_package(1)
        assert opened.receipt.reference == "oci://models.example/digits:1"
    assert opened.generation == generation == store.packages()[0]
    assert (generation.number, generation.tag, generation.why) == (1, "1", "it is the best")
    assert (
        generation.nbytes == generation.full_nbytes == sum(map(len, expected_package(1).values()))
    )


def test_its_files_are_read_only(store: PackageStore) -> None:
    install(store, 1)
    with store.open("digits") as opened:
        modes = {
            stat.S_IMODE(path.stat().st_mode) for path in opened.root.rglob("*") if path.is_file()
        }
    assert modes == {0o444}


def test_a_sparse_package_has_the_files_of_some_variants(store: PackageStore) -> None:
    generation = install(store, 1, variants="a")
    full = package(1)

    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1, variants="a")
        assert opened.receipt.absent == {
            "models/m/b/weights.bin": full.files["models/m/b/weights.bin"]
        }
    assert generation.full_nbytes - generation.nbytes == 400


def test_the_files_of_another_variant_make_another_tree(store: PackageStore) -> None:
    install(store, 1, variants="a")
    with store.open("digits") as before:
        generation = install(store, 1, variants="ab")
        with store.open("digits") as after:
            assert read_package(after.root) == expected_package(1)
        assert read_package(before.root) == expected_package(1, variants="a")
    assert generation.number == 2


def test_installing_the_same_again_changes_nothing(store: PackageStore) -> None:
    first = install(store, 1)
    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()}

    assert install(store, 1) == first
    after = {path: path.stat().st_mtime_ns for path in store.root.rglob("*") if path.is_file()}
    assert after == before


def test_equal_files_of_versions_lie_there_once(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)
    weights = list(store.root.rglob("models/m/b/weights.bin"))

    assert len(weights) == 2
    assert len({path.stat().st_ino for path in weights}) == 1


def test_versions_are_found_by_tag_and_digest(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)

    assert store.find("digits").tag == "2"
    assert store.find("digits", tag="1").number == 1
    assert store.find("digits", digest=digest_of(manifest(1))).tag == "1"
    with pytest.raises(PackageNotInstalledError, match="of 'digits' there is '2', '1'") as caught:
        store.find("digits", tag="3")
    assert caught.value.name == "digits:3"
    with pytest.raises(PackageNotInstalledError, match=r"'digits@sha256:.*' is not installed"):
        store.open("digits", digest=digest_of(b""))


def test_a_tag_that_moved_means_its_newest_installation(store: PackageStore) -> None:
    for version in (1, 2, 3):
        content = package(version)
        receive_blobs(store, version)
        store.install("digits", content, tag="stable" if version < 3 else "next")

    assert store.find("digits", tag="stable").number == 2


def test_rollback_goes_back_one_installation_at_a_time(store: PackageStore) -> None:
    for version in (1, 2, 3):
        install(store, version)

    assert store.rollback("digits").tag == "2"
    assert store.rollback("digits").tag == "1"
    with pytest.raises(StoreError, match="no installation before number 1"):
        store.rollback("digits")
    assert store.activate("digits", 3).tag == "3"
    assert [each.number for each in store.history("digits")] == [3, 2, 1]
    with pytest.raises(PackageNotInstalledError, match="no installation 7; there is 3, 2, 1"):
        store.activate("digits", 7)


def test_after_a_rollback_a_new_version_gets_a_new_number(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)
    store.rollback("digits")

    assert install(store, 3).number == 3
    assert store.find("digits").number == 3


def test_an_uninstalled_package_is_gone_and_the_others_are_not(store: PackageStore) -> None:
    install(store, 1)
    install(store, 1, name="other")
    with store.open("digits") as opened:
        store.uninstall("digits")
        assert read_package(opened.root) == expected_package(1)

    assert [each.name for each in store.packages()] == ["other"]
    for ask in (store.find, store.open, store.history, store.uninstall, store.rollback):
        with pytest.raises(PackageNotInstalledError, match="'digits' is not installed"):
            ask("digits")


def test_a_name_that_was_nearly_right_is_suggested(store: PackageStore) -> None:
    install(store, 1)
    with pytest.raises(PackageNotInstalledError, match="did you mean 'digits'"):
        store.find("digit")


@pytest.mark.parametrize("name", ["", "Digits", "a/b", "..", ".a", "a-", "a..b", "con", "a" * 200])
def test_names_that_make_no_folder_everywhere_are_refused(store: PackageStore, name: str) -> None:
    for ask in (store.find, store.uninstall, store.history, store.uses):
        with pytest.raises(PackageReferenceError, match="is no name for an installed package"):
            ask(name)
    with pytest.raises(PackageReferenceError, match="is no name"):
        store.install(name, package(1))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../x", "leads out"),
        ("/x", "absolute"),
        ("a//b", "is empty"),
        ("MANIFEST.json", "one pack"),
    ],
)
def test_paths_that_leave_the_package_or_collide_are_refused(
    store: PackageStore, path: str, why: str
) -> None:
    receive_blobs(store, 1)
    content = package(1)
    content = replace(content, files={**content.files, path: stored(b"same" * 100)})

    with pytest.raises(StoreError, match=why):
        store.install("digits", content)
    assert store.packages() == ()
    assert not (store.root / "packages").exists()


def test_a_tree_needs_all_its_blobs(store: PackageStore) -> None:
    receive(store, manifest(1))
    with pytest.raises(StoreError, match=r"of 'digits\.ortpackage' is not in the store"):
        store.install("digits", package(1))
    assert store.packages() == ()


def test_copies_are_files_of_their_own(store: PackageStore) -> None:
    content = package(1, is_linked=False)
    receive_blobs(store, 1)
    store.install("digits", content)

    with store.open("digits") as opened:
        assert opened.receipt.mode in (FileMode.COPY, FileMode.REFLINK)
        weights = opened.root / "models/m/b/weights.bin"
        assert weights.stat().st_nlink == 1
        assert read_package(opened.root) == expected_package(1)


def test_a_tree_that_lost_files_is_made_anew(store: PackageStore) -> None:
    install(store, 1)
    with store.open("digits") as opened:
        weights = opened.root / "models/m/b/weights.bin"
        weights.unlink()

    install(store, 1)

    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)


def test_a_tree_without_its_receipt_is_made_anew(store: PackageStore) -> None:
    install(store, 1)
    with store.open("digits") as opened:
        (opened.root.parent / "receipt.json").unlink()
        with pytest.raises(StoreError, match="are gone from the store"):
            opened.receipt  # noqa: B018 - it is read then

    install(store, 1)

    with store.open("digits") as opened:
        assert opened.receipt.files.keys() == expected_package(1).keys()


def test_what_is_damaged_is_taken_out_and_installed_again(store: PackageStore) -> None:
    generation = install(store, 1)
    assert store.damaged_files(generation) == ()
    with store.open("digits") as opened:
        weights = opened.root / "models/m/b/weights.bin"
        weights.chmod(0o644)
        weights.write_bytes(b"x" * 400)  # through a hard link it is the blob's

    assert store.damaged_files(generation) == ("models/m/b/weights.bin",)
    store.discard(generation, ["models/m/b/weights.bin"])
    with pytest.raises(StoreError, match="are gone from the store"):
        store.open("digits")
    assert install(store, 1) == generation
    with store.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)


def test_a_tree_that_was_deleted_says_how_to_get_it_back(store: PackageStore) -> None:
    install(store, 1)
    shutil.rmtree(store.root / "packages")
    with pytest.raises(StoreError, match=r"gone from the store: ortpkg repair .*install 'oci://"):
        store.open("digits")


def test_the_store_can_be_moved(store: PackageStore, tmp_path: Path) -> None:
    install(store, 1)
    store.root.rename(tmp_path / "moved")
    moved = PackageStore(tmp_path / "moved")

    with moved.open("digits") as opened:
        assert read_package(opened.root) == expected_package(1)
    assert install(moved, 2).number == 2
    for path in moved.root.rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()


def test_it_is_an_image_layout_that_names_what_is_in_use(store: PackageStore) -> None:
    for version in (1, 2):
        install(store, version)
    install(store, 1, name="other")

    layout = json.loads((store.root / "oci-layout").read_bytes())
    index = json.loads((store.root / "index.json").read_bytes())
    assert layout == {"imageLayoutVersion": "1.0.0"}
    named = {
        each["annotations"]["org.opencontainers.image.ref.name"]: each["digest"]
        for each in index["manifests"]
    }
    assert named == {"digits": digest_of(manifest(2)), "other": digest_of(manifest(1))}
    assert OciLayout(store.root).resolve("digits").digest == digest_of(manifest(2))
    for entry in index["manifests"]:
        blob = store.blobs.path(entry["digest"]).read_bytes()
        assert (len(blob), digest_of(blob)) == (entry["size"], entry["digest"])


def test_a_folder_of_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(StoreError, match=r"is no store, and holds other things \('thesis.tex'\)"):
        install(PackageStore(tmp_path), 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "thesis.tex"]


def test_a_store_of_a_newer_ortpkg_is_left_alone(store: PackageStore) -> None:
    install(store, 1)
    (store.root / "store.json").write_text('{"schema_version": "2.0"}')
    for use in (store.packages, store.gc, lambda: install(store, 2)):
        with pytest.raises(StoreError, match=r"schema_version '2\.0'; this ortpkg reads 1\.x"):
            use()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"name": "digits"}', b"\xff" * 9])
def test_a_damaged_record_is_named_and_others_are_listed(
    store: PackageStore, content: bytes
) -> None:
    install(store, 1)
    install(store, 1, name="other")
    record = store.root / "names/digits/current.json"
    record.write_bytes(content)
    told: list[StoreError] = []

    assert [each.name for each in store.packages(on_damage=told.append)] == ["other"]
    assert "current.json' is damaged: delete it" in str(told[0])
    with pytest.raises(StoreError, match="is damaged"):
        store.open("digits")


def test_nothing_is_made_by_looking(store: PackageStore) -> None:
    assert store.packages() == ()
    assert store.gc().removed == ()
    with pytest.raises(PackageNotInstalledError):
        store.open("digits")
    assert not store.root.exists()


def test_what_ran_is_written_down(store: PackageStore) -> None:
    generation = install(store, 1)
    for variant in ("m/a", "m/b"):
        store.note_use(generation, variant)

    assert [(each.generation, each.variant) for each in store.uses("digits")] == [
        (1, "m/a"),
        (1, "m/b"),
    ]


def test_what_ran_takes_little_room_and_half_lines_do_no_harm(store: PackageStore) -> None:
    generation = install(store, 1)
    (store.root / "uses").mkdir()
    (store.root / "uses" / "digits.jsonl").write_bytes(b'{"time": 1, "gener\n')
    for number in range(3000):
        store.note_use(generation, f"m/{number}")

    uses = store.uses("digits")
    assert 500 < len(uses) < 3000
    assert uses[-1].variant == "m/2999"
    assert sum(path.stat().st_size for path in (store.root / "uses").iterdir()) < 140 * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="it has other pipes")
def test_a_pipe_among_the_uses_is_not_waited_for(store: PackageStore) -> None:
    generation = install(store, 1)
    (store.root / "uses").mkdir(exist_ok=True)
    os.mkfifo(store.root / "uses" / "digits.jsonl")

    store.note_use(generation, "m/a")

    assert store.uses("digits") == ()


def test_what_is_collected_again_and_again_before_it_is_held_is_not_called_lost(
    store: PackageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow process among fast ones: each time, what it found is gone before it holds it."""
    install(store, 0)
    take, versions = take_lease, iter(range(1, 31))

    def replaced_and_taken(*arguments: Any, **named: Any) -> Any:
        if (version := next(versions, None)) is not None:
            with monkeypatch.context() as patched:
                patched.setattr(installed_packages, "take_lease", take)
                install(store, version)
                store.gc(AT_ONCE)
        return take(*arguments, **named)

    monkeypatch.setattr(installed_packages, "take_lease", replaced_and_taken)

    with store.open("digits") as opened:
        assert opened.generation.tag == "30"
    shutil.rmtree(opened.root.parent)
    with pytest.raises(StoreError, match="are gone from the store: ortpkg repair digits fetches"):
        store.open("digits")
