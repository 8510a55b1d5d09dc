"""Correction of operators that ``onnx.reference`` computes otherwise than the standard says.

TfIdfVectorizer: the reference takes weights by columns of the output, the standard by n-grams. So
it counts each n-gram in a column of its own, and :func:`corrected_outputs` weighs the counts.

NegativeLogLikelihoodLoss: the reference takes ``ignore_index=-1`` for none where it divides by the
number of labels. It gets a weight of 1 for each class, which it divides by as the standard says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper

from ortpkg.graph.graph import Node
from ortpkg.runtime.kernels.op_kernel import Tensor, Value

_NGRAMS, _LOSS = ("", "TfIdfVectorizer"), ("", "NegativeLogLikelihoodLoss")
_WEIGHT_SLOT = 2


def correct_node(node: Node, proto: NodeProto) -> None:
    """Change ``proto``, the node for the reference, where the operator needs it."""
    if (node.domain, node.op_type) == _NGRAMS:
        count = len(node.attribute("ngram_indexes", ()))
        counting: dict[str, Any] = {
            "mode": "TF",
            "ngram_indexes": range(count),
            "weights": (1.0,) * count,
        }
        other_attributes = [
            attribute for attribute in proto.attribute if attribute.name not in counting
        ]
        del proto.attribute[:]
        proto.attribute.extend(other_attributes)
        proto.attribute.extend(
            helper.make_attribute(name, value) for name, value in counting.items() if value
        )
    elif _ignores_without_weight(node):
        del proto.input[_WEIGHT_SLOT:]
        proto.input.append(f"x{_WEIGHT_SLOT}")


def corrected_inputs(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the inputs for the node that :func:`correct_node` made."""
    if _ignores_without_weight(node) and inputs[0].ndim > 1:
        scores = inputs[0]
        return (*inputs[:_WEIGHT_SLOT], np.ones(scores.shape[1], scores.dtype))
    return inputs


def corrected_outputs(node: Node, outputs: list[Any]) -> list[Any]:
    """Return the node's outputs, made of those of the node that :func:`correct_node` made."""
    if (node.domain, node.op_type) == _NGRAMS:
        return [_weighted(node, np.asarray(outputs[0]))]
    return outputs


def _ignores_without_weight(node: Node) -> bool:
    return (
        (node.domain, node.op_type) == _LOSS
        and "ignore_index" in node.attributes
        and not any(node.inputs[_WEIGHT_SLOT:])
    )


def _weighted(node: Node, counts: Tensor) -> Tensor:
    """Return frequencies by columns of the output, (columns,) or (rows, columns).

    Args:
        node: a TfIdfVectorizer.
        counts: count of each n-gram of its pool, (n-grams,) or (rows, n-grams).
    """
    columns = np.array(node.attribute("ngram_indexes", ()), np.int64)
    mode = node.attribute("mode", "TF")
    weights = np.ones(len(columns), np.float32)
    if mode != "TF" and (declared := node.attribute("weights", ())):
        weights[: len(declared)] = declared[: len(columns)]
    by_row = counts.reshape(-1, len(columns))
    frequencies = np.zeros((len(by_row), int(columns.max()) + 1), np.float32)
    rows, ngrams = np.nonzero(by_row)
    if mode == "IDF":
        frequencies[rows, columns[ngrams]] = weights[ngrams]
    else:
        np.add.at(frequencies, (rows, columns[ngrams]), by_row[rows, ngrams] * weights[ngrams])
    return frequencies.reshape(*counts.shape[:-1], frequencies.shape[1])
