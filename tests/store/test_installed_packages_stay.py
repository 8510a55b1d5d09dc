"""An installed package stays as its publisher made it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ortpkg.api.verify import record_digests, verify
from ortpkg.authoring.create import remove_variant
from ortpkg.authoring.edit import PackageEdits, edit
from ortpkg.errors import AuthoringError
from ortpkg.store.package_store import PackageStore
from ortpkg.store.package_trees import TreeContent
from tests.store.store_packages import read_package

DIGITS = Path(__file__).parents[2] / "sample_packages" / "digits.ortpackage"

_CHANGES: dict[str, Callable[[Path], object]] = {
    "edit": lambda root: edit(root, PackageEdits(description="mine")),
    "remove-variant": lambda root: remove_variant(root, "cpu-int8", component="classifier"),
    "verify --record": record_digests,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = PackageStore(tmp_path / "store")
    manifest = store.blobs.add_bytes(b"manifest")
    content = TreeContent(
        manifest=manifest,
        reference="oci://models.example/digits:1",
        folder="digits.ortpackage",
        documents=read_package(DIGITS),
        blobs=(manifest,),
    )
    with store.hold(trees=[content.key]):
        return store.make_tree(content).root


@pytest.mark.parametrize("change", _CHANGES)
def test_it_is_not_changed_and_its_copy_is(root: Path, tmp_path: Path, change: str) -> None:
    (tmp_path / "link").symlink_to(root)
    for path in (root, tmp_path / "link"):
        with pytest.raises(AuthoringError, match="is an installed package, whose files are"):
            _CHANGES[change](path)
    assert read_package(root) == read_package(DIGITS)

    copy = tmp_path / "store" / "packages" / "a" / "b" / "copy.ortpackage"
    shutil.copytree(root, copy)
    _CHANGES[change](copy)


def test_it_may_be_mended(root: Path) -> None:
    model = next(root.rglob("*.onnx"))
    model.unlink()

    verify(root, repair_from=DIGITS)

    assert read_package(root) == read_package(DIGITS)
