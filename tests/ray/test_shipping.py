"""A package that only the driver has, on a node."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import ortpkg
from ortpkg.batches.package_runner import PackageUse
from ortpkg.measuring.package_digest import package_digest
from ortpkg.ray.shipping import arrived, forget, ship
from tests.cli.conftest import DIGITS

STORE = SimpleNamespace(put=lambda content: content, get=lambda content: content)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "ray", STORE)


def test_a_package_arrives_whole_once_and_goes(tmp_path: Path) -> None:
    mine = tmp_path / "mine/digits.ortpackage"
    shutil.copytree(DIGITS, mine)
    shipped = ship(STORE, str(mine))
    assert shipped is not None
    use = PackageUse(reference=str(mine))
    assert arrived(use, shipped) is use
    shutil.rmtree(mine)
    there = arrived(use, shipped)
    assert there == arrived(use, shipped)
    root = Path(there.reference)
    assert root.name == "digits.ortpackage"
    assert package_digest(root) == package_digest(DIGITS)
    other = ship(STORE, str(DIGITS))
    assert other is not None
    of_another_batch = Path(arrived(use, other).reference)
    forget(shipped.key)
    assert not root.exists()
    assert of_another_batch.exists()


def test_a_packed_package_is_sent_as_it_is_and_a_bare_model_not_at_all(tmp_path: Path) -> None:
    packed = tmp_path / "digits.ortpkg"
    ortpkg.pack(DIGITS, packed)
    shipped = ship(STORE, str(packed))
    assert shipped is not None
    assert (shipped.name, shipped.content) == ("digits", packed.read_bytes())
    assert ship(STORE, str(DIGITS / "models/classifier/cpu-fp32/model.onnx")) is None
