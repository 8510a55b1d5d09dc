"""An installed package stays as its publisher made it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg.api.samples.sample_authoring import SampleArrays
from ortpkg.api.verify import record_digests, verify
from ortpkg.authoring.compile_variants import compile_variants
from ortpkg.authoring.compile_wishes import CompileWishes
from ortpkg.authoring.create import remove_variant
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.distribution.package_signing import sign_package
from ortpkg.distribution.store.blob_trees import TreeContent
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import AuthoringError
from ortpkg.package.trust.signing.signing_keys import new_private_key
from tests.store.store_packages import read_package

DIGITS = Path(__file__).parents[2] / "sample_packages" / "digits.ortpackage"

_MODEL = DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx"
_SAMPLES = SampleArrays(name="mine", inputs={"image": np.zeros((1, 64), np.float32)})
_ANYWHERE: dict[str, Callable[[Path], object]] = {
    "edit": lambda root: edit(root, PackageEdits(description="mine")),
    "remove-variant": lambda root: remove_variant(root, "cpu-int8", component="classifier"),
    "verify --record": record_digests,
}
_CHANGES: dict[str, Callable[[Path], object]] = {
    **_ANYWHERE,
    "add-variant": lambda root: ortpkg.add_variant(root, _MODEL, variant="mine", ep="cpu"),
    "slim": lambda root: ortpkg.slim(root, variants=["cpu-fp32"]),
    "convert": lambda root: ortpkg.convert(root, "component"),
    "dedup": ortpkg.dedup,
    "compile": lambda root: compile_variants(
        root, CompileWishes(ep="openvino", device="cpu"), notify=lambda _: None
    ),
    "samples add": lambda root: ortpkg.add_samples(root, _SAMPLES),
    "samples record": lambda root: ortpkg.record_samples(root, _SAMPLES),
    "sign": lambda root: sign_package(root, new_private_key()),
    "merge": lambda root: ortpkg.merge(root, DIGITS),
}
#: What takes the place of a package that is there.
_REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "init": lambda root: ortpkg.init_package(root, overwrite=True),
    "create": lambda root: ortpkg.create(root, [ortpkg.NewVariant(model=_MODEL)], overwrite=True),
    "convert -o": lambda root: ortpkg.convert(DIGITS, "component", output=root, overwrite=True),
    "pull -o": lambda root: ortpkg.pull(DIGITS, root, overwrite=True),
}


def tree(folder: Path, documents: dict[str, bytes]) -> Path:
    """The package in a store."""
    store = PackageStore(folder)
    manifest = store.blobs.add_bytes(b"manifest")
    content = TreeContent(
        manifest=manifest,
        reference="oci://models.example/digits:1",
        folder="digits.ortpackage",
        documents=documents,
        blobs=(manifest,),
    )
    with store.hold(trees=[content.key]):
        return store.make_tree(content).root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "store", read_package(DIGITS))


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has a single variant."""
    files = read_package(DIGITS)
    kept = {path: files[path] for path in files if "model.onnx" not in path or "cpu-fp32" in path}
    return tree(tmp_path_factory.mktemp("sparse") / "store", kept)


@pytest.mark.parametrize("change", [*_CHANGES, *_REPLACEMENTS])
def test_nothing_changes_it(sparse: Path, change: str) -> None:
    before = read_package(sparse)
    with pytest.raises(AuthoringError, match=r"is an installed package.*: ortpkg pull NAME -o"):
        {**_CHANGES, **_REPLACEMENTS}[change](sparse)

    assert read_package(sparse) == before


@pytest.mark.parametrize("change", _ANYWHERE)
def test_it_is_not_changed_and_its_copy_is(root: Path, tmp_path: Path, change: str) -> None:
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(AuthoringError, match="is an installed package, whose files are"):
        _ANYWHERE[change](tmp_path / "link")
    assert read_package(root) == read_package(DIGITS)

    copy = tmp_path / "store" / "packages" / "a" / "b" / "copy.ortpackage"
    shutil.copytree(root, copy)
    _ANYWHERE[change](copy)


def test_it_may_be_mended(root: Path) -> None:
    model = next(root.rglob("*.onnx"))
    model.unlink()

    verify(root, repair_from=DIGITS)

    assert read_package(root) == read_package(DIGITS)
