"""Move a ``Pad`` of zeros over spatial dimensions into the ``Conv`` behind it."""

from __future__ import annotations

from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.runtime.engine.transformers.rewriting import (
    constant_array,
    constant_ints,
    replace_nodes,
    same_provider,
    sole_consumed_producer,
)
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext

_FIRST_VERSION_WITH_INPUTS = 11
_VALUE, _AXES = 2, 3
_SPATIAL = 2


def _rewrite(graph: Graph, node: Node, _context: TransformContext) -> bool:
    pad = sole_consumed_producer(graph, node.inputs[0], "Pad")
    if pad is None or not same_provider(pad, node):
        return False
    auto_pad = node.attribute("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID"):
        return False
    added = _zero_pads(graph, pad)
    if (
        added is None
        or any(added[:_SPATIAL])
        or any(added[len(added) // 2 :][:_SPATIAL])
        or min(added) < 0
    ):
        return False
    half = len(added) // 2
    spatial = (*added[_SPATIAL:half], *added[half + _SPATIAL :])
    conv_pads = (node.attribute("pads") if auto_pad == "NOTSET" else None) or (0,) * len(spatial)
    if len(conv_pads) != len(spatial):
        return False
    pads = tuple(
        conv_pad + added_pad for conv_pad, added_pad in zip(conv_pads, spatial, strict=True)
    )
    attributes = {
        **node.attributes,
        "auto_pad": Attribute("STRING", b"NOTSET"),
        "pads": Attribute("INTS", pads),
    }
    replace_nodes(
        graph, [pad, node], "Conv", [pad.inputs[0], *node.inputs[1:]], attributes=attributes
    )
    return True


def _zero_pads(graph: Graph, pad: Node) -> tuple[int, ...] | None:
    """Return the pads at each dimension's ends; None if they are not constant, or not of zeros."""
    if pad.attribute("mode", "constant") != "constant":
        return None
    if pad.since_version < _FIRST_VERSION_WITH_INPUTS:
        pads = pad.attribute("pads") or pad.attribute("paddings")
        return tuple(pads) if pads and not pad.attribute("value", 0.0) else None
    names = (*pad.inputs, "", "")[: _AXES + 1]
    if names[_AXES]:
        return None
    if names[_VALUE]:
        value = constant_array(graph, names[_VALUE], largest_nbytes=64)
        if value is None or value.any():
            return None
    return constant_ints(graph, names[1])


PAD_FUSION = RewriteRule(name="pad-fusion", op_types=frozenset({"Conv"}), rewrite=_rewrite)
