"""Other implementations of OCI copy what we publish, digest for digest, and make it a folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ortpkg
from ortpkg.distribution.installation import install
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.references.package_references import OciReference
from tests.oci_tools.conftest import ORAS_PYTHON
from tests.registry.in_process_registry import InProcessRegistry, running

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
PULL = Path(__file__).with_name("pull_with_oras.py")
ALL = InstallWishes(all_variants=True)
pytestmark = pytest.mark.oci_tools
needs_skopeo = pytest.mark.skipif(
    shutil.which("skopeo") is None, reason="skopeo is not here: apt-get install skopeo"
)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageStore:
    """An empty store, the user's."""
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    return PackageStore()


@pytest.fixture
def registry() -> Iterator[str]:
    with running(InProcessRegistry()) as server:
        yield server.host


def skopeo(*words: str) -> str:
    command = ["skopeo", "--insecure-policy", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_as_published(root: Path) -> bool:
    return ortpkg.verify(root).is_intact and {
        path: (root / path).read_bytes() for path in list_files(root)
    } == {path: (DIGITS / path).read_bytes() for path in list_files(DIGITS)}


@needs_skopeo
def test_skopeo_copies_our_layout_to_one_that_we_install_from(
    store: PackageStore, tmp_path: Path
) -> None:
    digest = publish(DIGITS, OciLayout(tmp_path / "ours"), tags=["2"]).digest

    skopeo("copy", f"oci:{tmp_path}/ours:2", f"oci:{tmp_path}/theirs:2")
    report = install(f"oci-layout:{tmp_path}/theirs:2", wishes=ALL)

    assert report.generation is not None
    assert report.generation.digest == digest
    assert is_as_published(store.open("digits").root)


@needs_skopeo
def test_skopeo_moves_a_package_between_layout_and_registry_both_ways(
    store: PackageStore, tmp_path: Path, registry: str
) -> None:
    digest = publish(DIGITS, OciLayout(tmp_path / "ours"), tags=["2"]).digest
    here = f"docker://{registry}/models/digits:2"

    skopeo("copy", "--dest-tls-verify=false", f"oci:{tmp_path}/ours:2", here)
    install(f"oci://{registry}/models/digits:2", wishes=ALL)
    skopeo("copy", "--src-tls-verify=false", here, f"oci:{tmp_path}/back:2")

    assert is_as_published(store.open("digits").root)
    assert OciLayout(tmp_path / "back").resolve("2").digest == digest
    listed = json.loads(skopeo("list-tags", "--tls-verify=false", here.removesuffix(":2")))
    assert listed["Tags"] == ["2"]


@needs_skopeo
def test_the_stores_own_layout_is_read_by_skopeo(store: PackageStore, tmp_path: Path) -> None:
    publish(DIGITS, OciLayout(tmp_path / "ours"), tags=["2"])
    report = install(f"oci-layout:{tmp_path}/ours:2", wishes=ALL)

    raw = skopeo("inspect", "--raw", f"oci:{store.root}:digits").encode()

    assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == report.plan.fetched.source.digest


def test_a_folder_that_oras_pulls_by_paths_opens_verifies_and_runs(
    tmp_path: Path, registry: str
) -> None:
    place = OciReference(host=registry, repository="models/digits")
    publish(DIGITS, repository_of(place), tags=["2"])
    root = tmp_path / "pulled.ortpackage"

    command = [ORAS_PYTHON, str(PULL), f"{registry}/models/digits:2", str(root)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)

    assert is_as_published(root)
    assert ortpkg.ModelPackage(root).best_variant().create_session().get_inputs()
