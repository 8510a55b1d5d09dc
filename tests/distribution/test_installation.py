"""Installing: the documents, what the machine runs, and nothing else; whole, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ortpkg
from ortpkg.distribution.installation import InstallPlan, install
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import (
    NoSuitableVariantError,
    PackageNotInstalledError,
    PackageReferenceError,
    UnknownComponentError,
    UsageError,
)
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import read_digests
from tests.distribution.conftest import SAMPLES
from tests.store.store_packages import AT_ONCE

DIGITS = SAMPLES / "digits.ortpackage"
CPU = InstallWishes(profiles=("plain-server",))


def files_of(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def models_in(root: Path) -> set[str]:
    return {path.parent.name for path in root.rglob("model.onnx")}


def test_what_is_installed_is_the_documents_and_the_chosen_variant(
    published_digits: Path, store: PackageStore
) -> None:
    plans: list[InstallPlan] = []
    report = install(f"oci-layout:{published_digits}:2", wishes=CPU, on_plan=plans.append)

    root = store.open("digits").root
    (choice,) = plans[0].choices
    assert models_in(root) == {choice.variant}
    assert files_of(root) >= {"README.md", "manifest.json", "digests.json", "samples/samples.json"}
    assert (root / "digests.json").read_bytes() == (DIGITS / "digests.json").read_bytes()
    assert report.moved_nbytes == plans[0].moving_nbytes < plans[0].full_nbytes / 2
    assert plans[0].nbytes == sum(
        (root / path).stat().st_size for path in files_of(root) - {"digests.json"}
    )
    verified = ortpkg.verify(root)
    assert verified.is_intact
    assert "samples/held_out_inputs.npz" in verified.absent_files
    generation = store.find("digits", tag="2")
    assert generation.variants == (choice.name,)
    assert generation.why.startswith(
        f"{choice.name} for machine plain-server: CPUExecutionProvider"
    )


def test_a_second_time_nothing_moves_and_nothing_changes(
    published_digits: Path, store: PackageStore
) -> None:
    reference = f"oci-layout:{published_digits}:2"
    first = install(reference, wishes=CPU)
    second = install(reference, wishes=CPU)

    assert second.moved_nbytes == 0
    assert second.generation == first.generation
    assert len(store.history("digits")) == 1


def test_several_machines_get_what_each_of_them_runs(
    published_digits: Path, store: PackageStore
) -> None:
    wishes = InstallWishes(profiles=("plain-server", "rtx-workstation"))
    report = install(f"oci-layout:{published_digits}", wishes=wishes)

    assert len(report.plan.choices) == 2
    assert models_in(store.open("digits").root) == {each.variant for each in report.plan.choices}


@pytest.mark.parametrize(
    ("wishes", "models"),
    [
        (InstallWishes(variants=("cuda",)), {"cuda"}),
        (InstallWishes(variants=("classifier/cuda", "cpu-int8")), {"cuda", "cpu-int8"}),
        (
            InstallWishes(all_variants=True),
            {"cpu-fp32", "cpu-int8", "cuda", "openvino-gpu", "openvino-npu"},
        ),
        (InstallWishes(profiles=("rtx-workstation",), device="cpu"), {"cpu-fp32"}),
    ],
)
def test_what_is_asked_for_is_installed(
    published_digits: Path, store: PackageStore, wishes: InstallWishes, models: set[str]
) -> None:
    install(f"oci-layout:{published_digits}", wishes=wishes)

    assert models_in(store.open("digits").root) == models


def test_samples_come_where_they_are_wanted(published_digits: Path, store: PackageStore) -> None:
    install(f"oci-layout:{published_digits}", wishes=InstallWishes(samples=True))

    assert (store.open("digits").root / "samples" / "held_out_inputs.npz").is_file()


def test_all_variants_are_the_whole_package(published_digits: Path, store: PackageStore) -> None:
    install(f"oci-layout:{published_digits}", wishes=InstallWishes(all_variants=True))

    assert files_of(store.open("digits").root) == files_of(DIGITS)


def test_gc_takes_nothing_of_what_is_being_installed(
    published_digits: Path, store: PackageStore
) -> None:
    install(f"oci-layout:{published_digits}:2", wishes=CPU, on_plan=lambda _: store.gc(AT_ONCE))

    assert ortpkg.verify(store.open("digits").root).is_intact


def test_a_rehearsal_installs_nothing(published_digits: Path, store: PackageStore) -> None:
    report = install(f"oci-layout:{published_digits}", is_rehearsal=True)

    assert report.generation is None
    assert report.plan.moving_nbytes > 0
    with pytest.raises(PackageNotInstalledError):
        store.find("digits")


def test_a_folder_and_a_packed_file_are_what_push_would_publish(
    published_digits: Path, store: PackageStore, tmp_path: Path
) -> None:
    published = install(f"oci-layout:{published_digits}", wishes=CPU)
    folder = shutil.copytree(DIGITS, tmp_path / "copy.ortpackage")
    packed = tmp_path / "digits.ortpkg"
    ortpkg.pack(folder, packed)

    for reference in (folder, packed):
        report = install(reference, name="again", wishes=CPU)
        assert report.generation is not None
        assert report.moved_nbytes == 0
        assert published.generation is not None
        assert report.generation.tree == published.generation.tree
        assert report.generation.reference == str(reference)


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        (
            InstallWishes(variants=("cudo",)),
            UnknownComponentError,
            "package 'digits' has no variant 'cudo' .did you mean 'cuda'.*; it has 'cpu-fp32', 'cpu-i",
        ),
        (InstallWishes(ep="qnn"), NoSuitableVariantError, "no variant of component 'classifier'"),
        (
            InstallWishes(all_variants=True, device="cpu"),
            UsageError,
            "all variants are wanted, so there is nothing to choose by",
        ),
    ],
)
def test_what_cannot_be_chosen_installs_nothing(
    published_digits: Path,
    store: PackageStore,
    wishes: InstallWishes,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        install(f"oci-layout:{published_digits}", wishes=wishes)

    assert store.packages() == ()


def test_a_place_that_tells_no_name_asks_for_one(
    published_digits: Path, store: PackageStore, tmp_path: Path
) -> None:
    with pytest.raises(PackageReferenceError, match=r"'No Name' is no name for an installed"):
        install(f"oci-layout:{published_digits}", name="No Name")
    with pytest.raises(PackageReferenceError, match="no place to install from"):
        install("digits")


def test_digests_recorded_are_those_of_the_files(
    published_digits: Path, store: PackageStore
) -> None:
    install(f"oci-layout:{published_digits}", wishes=CPU)
    opened = store.open("digits")
    recorded = read_digests(opened.root)
    assert recorded is not None

    everything = {**opened.receipt.files, **opened.receipt.absent}
    del everything["digests.json"]
    assert {path: each.digest for path, each in everything.items()} == {
        path: f"sha256:{each.digests[0]}" for path, each in recorded.files.items()
    }


@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_damaged_in_the_store_is_fetched_again(
    published_digits: Path, store: PackageStore, is_link: bool
) -> None:
    """Also where the file of the package is the same file as the blob."""
    reference = f"oci-layout:{published_digits}:2"
    install(reference, wishes=CPU)
    root = store.open("digits").root
    (model,) = root.rglob("model.onnx")
    content = model.read_bytes()
    blob = store.blobs.path(f"sha256:{hash_bytes(content).sha256}")
    damaged = content[:-1] + bytes([content[-1] ^ 1])
    blob.unlink()
    blob.write_bytes(damaged)
    if is_link:
        model.unlink()
        model.hardlink_to(blob)

    report = install(reference, wishes=CPU)

    assert report.moved_nbytes == len(content)
    assert blob.read_bytes() == content
    assert ortpkg.verify(store.open("digits").root).is_intact


def test_a_damaged_file_of_an_installed_package_is_put_right(
    published_digits: Path, store: PackageStore
) -> None:
    reference = f"oci-layout:{published_digits}:2"
    install(reference, wishes=CPU)
    root = store.open("digits").root
    (model,) = root.rglob("model.onnx")
    content = model.read_bytes()
    model.unlink()
    model.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    install(reference, wishes=CPU)

    assert ortpkg.verify(store.open("digits").root).is_intact
