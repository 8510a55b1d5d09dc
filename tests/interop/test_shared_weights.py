"""What dedup and shared weights make of a package, opened, selected and run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortpkg
from ortpkg import NewVariant
from tests.interop.packages import AZURE, CPU
from tests.interop.protocol import Eps, FloatTensor, Walk
from tests.interop.release import Release

pytestmark = pytest.mark.interop

FEED = FloatTensor(shape=(2,), elements=(1.0, 2.0))
OFFSET, OWN_OFFSET = 5.0, 2.0


def make_model(folder: Path, location: str, *, order: tuple[str, ...] = ("common", "own")) -> Path:
    """Adds the means of two weights of 1 KiB in a data file to its input."""
    values = {"common": OFFSET - OWN_OFFSET, "own": OWN_OFFSET}
    weights = [
        numpy_helper.from_array(np.full(256, values[name], dtype=np.float32), name)
        for name in order
    ]
    nodes = [
        helper.make_node("ReduceMean", [name], [f"mean of {name}"], keepdims=0) for name in order
    ]
    nodes += [
        helper.make_node("Add", ["x", "mean of common"], ["h"]),
        helper.make_node("Add", ["h", "mean of own"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    folder.mkdir()
    onnx.save(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        location=location,
        size_threshold=0,
    )
    return folder / "model.onnx"


def run(release: Release, root: Path, eps: Eps) -> tuple[str | None, str]:
    """The variant's folder and the output that onnxruntime gives for it."""
    outcome = release.walk(Walk(root=str(root), component="model", eps=eps, feed=FEED))
    assert (outcome.crash, outcome.refusal) == ("", None)
    (output,) = outcome.outputs.values()
    return outcome.directory and Path(outcome.directory).name, str(output)


@pytest.mark.requirement("K23")
@pytest.mark.parametrize("way", ["common-directory", "shared-weights", "add-variant"])
def test_variants_that_share_weights_run(release: Release, tmp_path: Path, way: str) -> None:
    root = tmp_path / "p.ortpackage"
    azure = NewVariant(model=make_model(tmp_path / "azure", "azure.bin"), name="azure", ep=AZURE)
    cpu = make_model(tmp_path / "cpu", "cpu.bin", order=("own", "common"))
    if way == "add-variant":
        ortpkg.create(root, [azure])
        ortpkg.add_variant(root, cpu, variant="cpu", ep=CPU, share_weights=True)
    else:
        ortpkg.create(root, [azure, NewVariant(model=cpu, name="cpu", ep=CPU)])
        assert ortpkg.dedup(root, layout=way).saved_nbytes > 0
    expected = str(tuple(element + OFFSET for element in FEED.elements))

    wanted = {"azure": Eps(appended=("AZURE",))} | ({"cpu": Eps()} if release.minor >= 28 else {})
    outcomes = {name: run(release, root, eps) for name, eps in wanted.items()}

    assert {output for _, output in outcomes.values()} == {expected}
    assert len({folder for folder, _ in outcomes.values()}) == 1


@pytest.mark.requirement("K23")
def test_variants_that_share_an_asset_run(release: Release, tmp_path: Path) -> None:
    """The package's session option makes the asset the folder of external data."""
    if release.minor < 28:
        pytest.skip("shared assets came with onnxruntime 1.28")
    root = tmp_path / "p.ortpackage"
    azure = NewVariant(model=make_model(tmp_path / "azure", "azure.bin"), name="azure", ep=AZURE)
    cpu = make_model(tmp_path / "cpu", "cpu.bin", order=("own", "common"))
    ortpkg.create(root, [azure], form="component")
    ortpkg.add_variant(root, cpu, variant="cpu", ep=CPU, share_weights="shared-assets")
    assert not list((root / "models").rglob("*.bin"))
    expected = str(tuple(element + OFFSET for element in FEED.elements))

    outcomes = {
        name: run(release, root, eps)
        for name, eps in {"azure": Eps(appended=("AZURE",)), "cpu": Eps()}.items()
    }

    assert outcomes == {"azure": ("azure", expected), "cpu": ("cpu", expected)}
