"""External data is audited wherever models have tensors, and numbers of findings are bounded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ortpkg.authoring.package_checks import MOST_FINDINGS
from ortpkg.package.integrity.asset_digest import listing_digest
from ortpkg.package.paths.asset_reference import asset_folder_name
from tests.authoring.checks.trees import (
    component_tree,
    external,
    findings_of,
    graph_of,
    model_of,
    model_with_data,
    write_tree,
)

ESCAPES = "../../secret"


def _escaping() -> onnx.TensorProto:
    return external("w", ESCAPES)


def _in_attribute() -> bytes:
    return model_of(graph_of(helper.make_node("Constant", [], ["w"], value=_escaping())))


def _in_sub_graph() -> bytes:
    output = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4])
    branch = helper.make_graph([], "branch", [], [output], [_escaping()])
    return model_of(
        graph_of(helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch))
    )


def _in_function() -> bytes:
    constant = helper.make_node("Constant", [], ["y"], value=_escaping())
    function = helper.make_function(
        "local", "F", [], ["y"], [constant], [helper.make_opsetid("", 17)]
    )
    return model_of(graph_of(helper.make_node("F", [], ["y"], domain="local")), function)


def _in_function_sub_graph() -> bytes:
    output = helper.make_tensor_value_info("w", TensorProto.FLOAT, [4])
    branch = helper.make_graph([], "branch", [], [output], [_escaping()])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    function = helper.make_function(
        "local", "F", ["c"], ["y"], [node], [helper.make_opsetid("", 17)]
    )
    return model_of(graph_of(helper.make_node("F", ["x"], ["y"], domain="local")), function)


def _in_sparse_initializer() -> bytes:
    graph = graph_of(helper.make_node("Identity", ["x"], ["y"]))
    sparse = graph.sparse_initializer.add(dims=[8])
    sparse.values.CopyFrom(_escaping())
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3]))
    return model_of(graph)


def _in_sparse_attribute() -> bytes:
    node = helper.make_node("Constant", [], ["w"])
    attribute = node.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.dims.append(8)
    attribute.sparse_tensor.indices.CopyFrom(_escaping())
    return model_of(graph_of(node))


@pytest.mark.parametrize(
    "make",
    [
        _in_attribute,
        _in_sub_graph,
        _in_function,
        _in_function_sub_graph,
        _in_sparse_initializer,
        _in_sparse_attribute,
    ],
)
def test_sees_data_that_leaves_the_package(make: Callable[[], bytes], tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", component_tree() | {"gpu/model.onnx": make()})

    (found,) = findings_of(root, select=["ORT101"])["ORT101"]
    assert found.message.startswith(f"data file '{ESCAPES}' of tensor 'w' ")
    assert found.message.endswith(" in variant 'gpu' leaves the model's folder")


def test_reports_a_location_once_however_many_tensors_name_it(tmp_path: Path) -> None:
    tensors = [external(f"w{index}", ESCAPES) for index in range(5)]
    root = write_tree(
        tmp_path / "p", component_tree() | {"gpu/model.onnx": model_with_data(*tensors)}
    )

    (found,) = findings_of(root)["ORT101"]
    assert "of tensor 'w0' and 4 more in variant 'gpu'" in found.message


def test_lists_no_more_findings_than_anyone_reads_and_says_so(tmp_path: Path) -> None:
    tensors = [external(f"w{index}", f"../{index}") for index in range(MOST_FINDINGS + 10)]
    root = write_tree(
        tmp_path / "p", component_tree() | {"gpu/model.onnx": model_with_data(*tensors)}
    )

    found = findings_of(root, select=["ORT101"])["ORT101"]
    assert len(found) == MOST_FINDINGS
    assert found[-1].message.endswith("(and more such findings, not listed)")


def test_weights_in_a_shared_asset_are_looked_for_there(tmp_path: Path) -> None:
    asset = listing_digest({"w.bin": hashlib.sha256(bytes(16)).hexdigest()})
    option = {"session.model_external_initializers_file_folder_path": asset}
    tree = component_tree()
    tree["manifest.json"]["components"]["m"]["variants"]["gpu"]["executor_info"]["ort"][
        "session_options"
    ] = option
    tree |= {
        "gpu/model.onnx": model_with_data(),
        f"shared_assets/{asset_folder_name(asset)}/w.bin": bytes(16),
    }

    assert findings_of(write_tree(tmp_path / "p", tree)) == {}


def test_the_models_of_a_genai_variant_are_audited_too(tmp_path: Path) -> None:
    tree = {
        "manifest.json": {
            "schema_version": "1.0",
            "components": {"m": {"variants": {"v": {"ep": "X"}}}},
        },
        "v/genai_config.json": {"model": {"decoder": {"filename": "d.onnx"}}},
        "v/d.onnx": model_with_data(_escaping()),
    }

    assert list(findings_of(write_tree(tmp_path / "p", tree), select=["ORT1"])) == ["ORT101"]
