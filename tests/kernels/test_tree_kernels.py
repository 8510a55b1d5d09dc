"""Decision trees: held against onnxruntime, and bounded where a model is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

FEATURES = 4
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def ours(op_type: str, x: Tensor, *, outputs: int = 1, **attributes: Any) -> Any:
    return run_op(op_type, x, domain="ai.onnx.ml", outputs=outputs, **attributes)


def forest(depth: int = 3, trees: int = 5, seed: int = 0) -> dict[str, Any]:
    """Complete trees: node i of a tree is followed by 2i + 1 and 2i + 2."""
    random = np.random.default_rng(seed)
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    found: dict[str, Any] = {}
    for tree in range(trees):
        is_leaf = [node >= inner for node in range(count)]
        columns: dict[str, list[Any]] = {
            "nodes_treeids": [tree] * count,
            "nodes_nodeids": list(range(count)),
            "nodes_featureids": random.integers(0, FEATURES, count).tolist(),
            "nodes_values": random.integers(-2, 3, count).astype(float).tolist(),
            "nodes_modes": ["LEAF" if leaf else str(random.choice(MODES)) for leaf in is_leaf],
            "nodes_truenodeids": [0 if leaf else 2 * node + 1 for node, leaf in enumerate(is_leaf)],
            "nodes_falsenodeids": [
                0 if leaf else 2 * node + 2 for node, leaf in enumerate(is_leaf)
            ],
            "nodes_missing_value_tracks_true": random.integers(0, 2, count).tolist(),
        }
        for name, column in columns.items():
            found.setdefault(name, []).extend(column)
    return found


def votes(
    prefix: str, targets: int, *, negative: bool = True, depth: int = 3, trees: int = 5
) -> dict[str, Any]:
    """Every leaf votes for all ``targets``: onnxruntime reads missing votes otherwise."""
    leaves = [(tree, 2**depth - 1 + leaf) for tree in range(trees) for leaf in range(2**depth)]
    ballots = [(tree, node, target) for tree, node in leaves for target in range(targets)]
    weights = np.random.default_rng(7).uniform(-0.3 if negative else 0.0, 0.3, len(ballots))
    return {
        f"{prefix}_treeids": [tree for tree, _, _ in ballots],
        f"{prefix}_nodeids": [node for _, node, _ in ballots],
        f"{prefix}_ids": [target for _, _, target in ballots],
        f"{prefix}_weights": weights.tolist(),
    }


def rows() -> Tensor:
    x = np.random.default_rng(1).integers(-3, 4, (50, FEATURES)).astype(np.float32)
    x[::7, 1] = np.nan
    return x


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor_agrees_with_onnxruntime(targets: int, aggregate: str) -> None:
    attributes = forest() | votes("target", targets)
    settings: dict[str, Any] = {
        "n_targets": targets,
        "aggregate_function": aggregate,
        "base_values": [0.5] * targets,
    }
    found = ours("TreeEnsembleRegressor", rows(), **attributes, **settings)
    expected = run_on_onnxruntime(
        "TreeEnsembleRegressor", rows(), domain="ai.onnx.ml", **attributes, **settings
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


#: (classes, whether weights are negative too, post-transform). Positive weights of one class are a
#: probability, which no exporter puts through SOFTMAX.
CLASSIFIERS = [
    *((classes, True, post) for classes in (1, 2, 3) for post in ("NONE", "SOFTMAX", "LOGISTIC")),
    (1, False, "NONE"),
    (1, False, "LOGISTIC"),
]


@pytest.mark.parametrize(("classes", "negative", "post_transform"), CLASSIFIERS)
def test_classifier_agrees_with_onnxruntime(
    classes: int, negative: bool, post_transform: str
) -> None:
    attributes = forest() | votes("class", classes, negative=negative)
    settings: dict[str, Any] = {
        "classlabels_strings": ["no", "yes", "maybe"][: max(classes, 2)],
        "post_transform": post_transform,
    }
    labels, scores = ours("TreeEnsembleClassifier", rows(), outputs=2, **attributes, **settings)
    expected_labels, expected_scores = run_on_onnxruntime(
        "TreeEnsembleClassifier", rows(), domain="ai.onnx.ml", outputs=2, **attributes, **settings
    )
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-6)
    if classes == 2:  # onnxruntime asks only whether the second class's score is positive
        expected_labels = np.array(["no", "yes"], dtype=object)[expected_scores.argmax(axis=1)]
    assert labels.tolist() == expected_labels.tolist()


def test_cycle_among_nodes_is_an_error() -> None:
    attributes = forest(trees=1) | votes("target", 1, trees=1)
    attributes["nodes_truenodeids"][1] = attributes["nodes_falsenodeids"][1] = 0
    with pytest.raises(ValueError, match="the nodes of a tree form a cycle"):
        ours("TreeEnsembleRegressor", rows(), n_targets=1, **attributes)


def test_node_that_is_not_there_is_an_error_with_the_nodes_name() -> None:
    attributes = forest(trees=1) | votes("target", 1, trees=1)
    attributes["nodes_truenodeids"][0] = 99
    with pytest.raises(InvalidGraphError, match="its trees name a node or mode that is not there"):
        ours("TreeEnsembleRegressor", rows(), n_targets=1, **attributes)


def test_vote_for_a_target_that_is_not_there_is_an_error() -> None:
    attributes = forest() | votes("target", 3)
    with pytest.raises(ValueError, match="a tree names target 2, but there are 2"):
        ours("TreeEnsembleRegressor", rows(), n_targets=2, **attributes)


def test_row_without_the_features_that_the_trees_look_at_is_an_error() -> None:
    attributes = forest() | votes("target", 1)
    with pytest.raises(ValueError, match="the trees look at feature 3 of rows of 2"):
        ours("TreeEnsembleRegressor", rows()[:, :2], n_targets=1, **attributes)
