"""EPContext nodes: the design's attributes and defaults, and what is not as it says."""

from __future__ import annotations

import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.runtime.ep_context.context_node import (
    EpContextAttributes,
    ep_context_attributes,
    ep_context_nodes,
    is_ep_context,
)


def node_of(**attributes: Attribute) -> Node:
    graph = Graph("g", opset_imports={"": 21, "com.microsoft": 1})
    return graph.add_node(
        "EPContext",
        ["a", "b"],
        ["c"],
        domain="com.microsoft",
        name="ctx",
        attributes=attributes,
        since_version=1,
    )


PAYLOAD = Attribute("STRING", b"\x00\xff payload")


@pytest.mark.requirement("E01", "E02", "E04", "E05", "E12")
def test_defaults_are_a_main_node_with_an_embedded_context() -> None:
    found = ep_context_attributes(node_of(ep_cache_context=PAYLOAD))
    assert found.main_context
    assert found.embed_mode
    assert found.max_size == 0
    assert found.ep_cache_context == b"\x00\xff payload"
    assert found.context_path == ""


@pytest.mark.requirement("E04", "E06", "E07", "E08", "E09", "E10", "E11")
def test_every_attribute_survives_a_round_trip() -> None:
    attributes = EpContextAttributes(
        embed_mode=False,
        ep_cache_context=b"sub/model_openvino.bin",
        ep_sdk_version="2026.4",
        onnx_model_filename="model.onnx",
        hardware_architecture="zen4",
        partition_name="p_0",
        source="OpenVINOExecutionProvider",
        notes="made for a test",
        max_size=7,
        others={"vendor_key": Attribute("FLOAT", 1.5)},
    )
    found = ep_context_attributes(node_of(**attributes.to_attributes()))
    assert found == attributes
    assert found.context_path == "sub/model_openvino.bin"


@pytest.mark.requirement("E03")
def test_a_node_without_a_context_of_its_own_needs_no_payload() -> None:
    found = ep_context_attributes(
        node_of(main_context=Attribute("INT", 0), source=Attribute("STRING", b"QNN"))
    )
    assert not found.main_context
    assert found.ep_cache_context == b""


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "ep_cache_context, which should hold or name it, is empty"),
        (
            {"ep_cache_context": PAYLOAD, "main_context": Attribute("INT", 2)},
            "main_context is 0 or 1, not 2",
        ),
        (
            {"ep_cache_context": PAYLOAD, "embed_mode": Attribute("FLOAT", 1.0)},
            "embed_mode is INT, not FLOAT",
        ),
        (
            {"ep_cache_context": PAYLOAD, "source": Attribute("STRING", b"\xff")},
            "source is not UTF-8",
        ),
    ],
)
def test_what_is_not_as_the_design_says_is_an_invalid_graph(
    attributes: dict[str, Attribute], message: str
) -> None:
    with pytest.raises(InvalidGraphError, match=r"ctx.*" + message) as caught:
        ep_context_attributes(node_of(**attributes))
    assert caught.value.node_name == "ctx"


def test_path_that_is_no_text_is_refused_when_it_is_asked_for() -> None:
    found = ep_context_attributes(node_of(ep_cache_context=PAYLOAD, embed_mode=Attribute("INT", 0)))
    with pytest.raises(InvalidGraphError, match="ep_cache_context is not UTF-8"):
        _ = found.context_path


def test_nodes_are_found_in_sub_graphs_too_and_by_domain() -> None:
    graph = Graph("g", opset_imports={"": 21})
    graph.add_node("EPContext", ["a"], ["b"], domain="other", name="foreign", since_version=1)
    body = Graph("body", parent=graph)
    body.add_node("EPContext", [], ["d"], domain="com.microsoft", name="inner", since_version=1)
    graph.add_node(
        "If",
        ["p"],
        ["c"],
        name="if",
        attributes={"then_branch": Attribute("GRAPH", body)},
        since_version=16,
    )
    assert [node.name for node in ep_context_nodes(graph)] == ["inner"]
    assert not any(map(is_ep_context, graph.nodes))
    with pytest.raises(InvalidGraphError, match="inner"):
        [*map(ep_context_attributes, ep_context_nodes(graph))]
