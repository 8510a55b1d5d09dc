"""ortpkg reads these tests' packages by its strict rules and computes the same from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ortpkg import ModelPackage
from ortpkg.foundations.errors import ModelError
from tests.interop.conftest import PackageWriter, ReleaseStarter
from tests.interop.packages import (
    Tree,
    common_directory_tree,
    component_forms_tree,
    metadata_common_directory_tree,
    olive_tree,
    shared_asset_tree,
    universal_tree,
)
from tests.interop.protocol import Eps, FloatTensor, Walk
from tests.interop.wheels import installed_release

pytestmark = pytest.mark.interop

FEED = FloatTensor(shape=(2,), elements=(1.0, 2.0))


@pytest.mark.parametrize(
    ("make_tree", "component"),
    [
        (universal_tree, "c"),
        (component_forms_tree, "inline"),
        (component_forms_tree, "file"),
        (component_forms_tree, "directory"),
        (common_directory_tree, "c"),
        (shared_asset_tree, "c"),
    ],
)
def test_embedded_engine_computes_what_onnxruntime_computes(
    start_release: ReleaseStarter,
    write_package: PackageWriter,
    make_tree: Callable[[], Tree],
    component: str,
) -> None:
    root = write_package(make_tree())
    theirs = start_release(installed_release()).walk(
        Walk(root=str(root), component=component, eps=Eps(), feed=FEED)
    )

    variant = ModelPackage(root).best_variant(component)
    (output,) = variant.create_session(backend="embedded").run(
        None, {"x": np.array(FEED.elements, np.float32)}
    )

    assert variant.name == theirs.variant
    assert tuple(np.asarray(output)) == theirs.outputs["y"]


def test_metadata_package_with_common_directory_runs_here(write_package: PackageWriter) -> None:
    variant = ModelPackage(write_package(metadata_common_directory_tree())).best_variant("c")

    (output,) = variant.create_session(backend="embedded").run(
        None, {"x": np.array(FEED.elements, np.float32)}
    )

    assert (variant.name, tuple(np.asarray(output))) == ("cpu", (6.0, 7.0))


def test_olive_package_is_selected_from_here_and_has_no_session(
    write_package: PackageWriter,
) -> None:
    root = write_package(olive_tree())

    variant = ModelPackage(root).best_variant("model")

    assert (variant.name, variant.directory) == ("cpu", root / "models" / "model" / "cpu")
    with pytest.raises(ModelError, match="is a GenAI variant"):
        variant.create_session()
