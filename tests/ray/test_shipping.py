"""A package that only the driver has, on a node."""

from __future__ import annotations

import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import ortpkg
from ortpkg.scale.batches.package_runner import PackageUse
from ortpkg.scale.ray import shipping
from ortpkg.scale.ray.shipping import NodeCopies, forget, packed_bytes, with_local_copy
from ortpkg.selection.measuring.package_digest import package_digest
from tests.cli.conftest import DIGITS

STORE = SimpleNamespace(get=lambda content: content)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "ray", STORE)


def test_a_package_arrives_whole_once_and_goes(tmp_path: Path) -> None:
    mine = tmp_path / "mine/digits.ortpackage"
    shutil.copytree(DIGITS, mine)
    copies = NodeCopies(content=packed_bytes(str(mine)))
    use = PackageUse(reference=str(mine))
    assert with_local_copy(use, copies) is use
    shutil.rmtree(mine)
    there = with_local_copy(use, copies)
    assert there == with_local_copy(use, copies)
    root = Path(there.reference)
    assert root.name == "digits.ortpackage"
    assert package_digest(root) == package_digest(DIGITS)
    of_another_batch = Path(with_local_copy(use, replace(copies, key="other")).reference)
    forget(copies.key)
    assert not root.exists()
    assert of_another_batch.exists()


def test_workers_of_a_node_unpack_a_packed_package_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "digits.ortpkg"
    ortpkg.pack(DIGITS, packed)
    unpacked: list[Path] = []

    def unpack(path: Path, root: Path) -> None:
        unpacked.append(root)
        time.sleep(0.2)  # in which the other worker asks
        ortpkg.unpack(path, root)

    monkeypatch.setattr(shipping, "unpack", unpack)
    use, copies = PackageUse(reference=str(packed)), NodeCopies()
    with ThreadPoolExecutor(2) as workers:
        first, second = workers.map(with_local_copy, [use] * 2, [copies] * 2)
    assert first == second
    assert [str(root) for root in unpacked] == [first.reference]
    assert package_digest(Path(first.reference)) == package_digest(DIGITS)


def test_a_packed_package_is_sent_as_it_is_and_a_bare_model_not_at_all(tmp_path: Path) -> None:
    packed = tmp_path / "digits.ortpkg"
    ortpkg.pack(DIGITS, packed)
    assert packed_bytes(str(packed)) == packed.read_bytes()
    model = str(DIGITS / "models/classifier/cpu-fp32/model.onnx")
    assert packed_bytes(model) is None
    use = PackageUse(reference=model)
    assert with_local_copy(use, NodeCopies()) is use
