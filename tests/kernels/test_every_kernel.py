"""No kernel of ours without a case: of the onnx package, which the conformance tests run, or here.

Of every kernel for ai.onnx and ai.onnx.ml. For com.microsoft's onnx has none: those are held
against onnxruntime.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from tests.conformance.node_cases import node_cases
from tests.kernels.node_runner import run_op

#: Domain, operator, and the oldest version that the kernel implements.
Key = tuple[str, str, int]
TESTS = Path(__file__).parents[1]
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LAYER = (X, np.full(3, 2, np.float32), np.ones(3, np.float32))

#: Kernels for versions or operators that onnx has no case of → what they make, what they should.
OWN_CASES: dict[Key, Callable[[], tuple[Any, Any]]] = {
    ("", "Reshape", 1): lambda: (run_op("Reshape", X, shape=[3, -1], opset=1), X.reshape(3, 2)),
    ("", "Squeeze", 1): lambda: (run_op("Squeeze", X[:, None], axes=[1], opset=1), X),
    ("", "Tile", 1): lambda: (
        run_op("Tile", X, np.array(2), np.array(1), opset=1),
        np.tile(X, (1, 2)),
    ),
    ("", "Pad", 1): lambda: (
        run_op("Pad", X, pads=[0, 1, 2, 0], value=7.0, opset=2),
        np.pad(X, ((0, 2), (1, 0)), constant_values=7),
    ),
    ("", "Slice", 1): lambda: (
        run_op("Slice", X, starts=[1], ends=[-1], axes=[1], opset=1),
        X[:, 1:-1],
    ),
    ("", "GlobalLpPool", 1): lambda: (
        run_op("GlobalLpPool", X[None], p=3),
        (X[None] ** 3).sum(axis=2, keepdims=True) ** (1 / 3),
    ),
    ("", "LayerNormalization", 1): lambda: (
        run_op("LayerNormalization", *LAYER, opset=16),
        run_op("LayerNormalization", *LAYER, opset=17),
    ),
    ("", "Resize", 10): lambda: (
        run_op("Resize", X, np.array([1, 2], np.float32), opset=10),
        X.repeat(2, axis=1),
    ),
    ("", "Upsample", 1): lambda: (
        run_op("Upsample", X, scales=[1.0, 2.0], opset=7),
        X.repeat(2, axis=1),
    ),
    ("", "TopK", 1): lambda: (run_op("TopK", X, k=2, outputs=2, opset=1)[0], X[:, :0:-1]),
}
#: Likewise → the file under ``tests`` and the test there that is about them, for what takes more
#: than a line.
TESTED_IN: dict[Key, tuple[str, str]] = {
    ("", "SequenceErase", 11): (
        "kernels/test_sequence.py",
        "test_erase_takes_one_element_out",
    ),
    ("", "ConcatFromSequence", 11): (
        "kernels/test_sequence.py",
        "test_concat_stacks_along_a_new_axis",
    ),
    ("", "SimplifiedLayerNormalization", 1): (
        "kernels/test_reductions_and_normalizations.py",
        "test_statistics_agree_with_onnxruntime",
    ),
    ("", "RandomNormal", 1): (
        "kernels/test_random_generators.py",
        "test_normal_has_its_mean_and_scale",
    ),
    ("", "RandomUniform", 1): (
        "kernels/test_random_generators.py",
        "test_uniform_stays_between_its_bounds",
    ),
    ("", "RandomNormalLike", 1): (
        "kernels/test_random_generators.py",
        "test_seed_gives_the_same_numbers_on_every_run",
    ),
    ("", "Multinomial", 7): (
        "kernels/test_random_generators.py",
        "test_multinomial_draws_classes_by_their_odds",
    ),
    ("", "MaxRoiPool", 1): (
        "kernels/test_detection.py",
        "test_roi_pool_agrees_with_onnxruntime",
    ),
    ("ai.onnx.ml", "TreeEnsembleRegressor", 1): (
        "kernels/test_tree_kernels.py",
        "test_regressor_agrees_with_onnxruntime",
    ),
    ("ai.onnx.ml", "TreeEnsembleClassifier", 1): (
        "kernels/test_tree_kernels.py",
        "test_classifier_agrees_with_onnxruntime",
    ),
    ("ai.onnx.ml", "SVMClassifier", 1): (
        "kernels/test_support_vectors.py",
        "test_row_of_another_width_is_refused",
    ),
    ("ai.onnx.ml", "Scaler", 1): (
        "kernels/test_linear_models.py",
        "test_scaler_subtracts_before_it_rounds",
    ),
    ("ai.onnx.ml", "Normalizer", 1): (
        "kernels/test_linear_models.py",
        "test_normalizer_divides_rows_by_their_norm",
    ),
    ("ai.onnx.ml", "LinearClassifier", 1): (
        "kernels/test_linear_models.py",
        "test_classifier_agrees_with_onnxruntime",
    ),
    ("ai.onnx.ml", "SVMRegressor", 1): (
        "kernels/test_support_vectors.py",
        "test_regressor_predicts_as_scikit_learn_trained_it",
    ),
    ("ai.onnx.ml", "Imputer", 1): (
        "kernels/test_feature_rows.py",
        "test_imputer_fills_in_floats",
    ),
    ("ai.onnx.ml", "FeatureVectorizer", 1): (
        "kernels/test_feature_rows.py",
        "test_vectorizer_cuts_and_fills_what_it_joins",
    ),
    ("ai.onnx.ml", "OneHotEncoder", 1): (
        "kernels/test_feature_rows.py",
        "test_encoder_has_a_column_for_each_category",
    ),
    ("ai.onnx.ml", "LinearRegressor", 1): (
        "kernels/test_linear_models.py",
        "test_regressor_of_integers_makes_float32",
    ),
    ("ai.onnx.ml", "ZipMap", 1): (
        "kernels/test_traditional_ml.py",
        "test_zip_map_names_each_score",
    ),
    ("ai.onnx.ml", "CastMap", 1): (
        "kernels/test_traditional_ml.py",
        "test_cast_map_orders_by_key",
    ),
    ("ai.onnx.ml", "CategoryMapper", 1): (
        "kernels/test_traditional_ml.py",
        "test_category_mapper_goes_both_ways_with_defaults",
    ),
    ("ai.onnx.ml", "LabelEncoder", 1): (
        "kernels/test_traditional_ml.py",
        "test_label_encoder_1_goes_both_ways",
    ),
    ("ai.onnx.ml", "DictVectorizer", 1): (
        "session/test_onnxruntime_mistakes.py",
        "test_a_map_becomes_a_row",
    ),
}


@cache
def version_of(domain: str, op_type: str, opset: int) -> int:
    try:
        return int(onnx.defs.get_schema(op_type, opset, domain).since_version)
    except onnx.defs.SchemaError:
        return 0


def operators_of(graph: onnx.GraphProto, opsets: dict[str, int]) -> set[Key]:
    """(domain, operator, version) of every node, those of sub-graphs too."""
    found: set[Key] = set()
    for node in graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        found.add((domain, node.op_type, version_of(domain, node.op_type, opsets.get(domain, 1))))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= operators_of(attribute.g, opsets)
    return found


def test_every_kernel_has_a_case_of_onnx_or_one_of_ours() -> None:
    in_onnx: set[Key] = set()
    for case in node_cases():
        opsets = {entry.domain: entry.version for entry in case.model.opset_import}
        in_onnx |= operators_of(case.model.graph, opsets)

    without = {
        (definition.domain, definition.op_type, definition.since[0])
        for definition in cpu_kernel_registry().definitions()
        if definition.domain in ("", "ai.onnx.ml")
        if in_onnx.isdisjoint(
            (definition.domain, definition.op_type, version) for version in definition.since
        )
    }

    known = OWN_CASES.keys() | TESTED_IN.keys()
    assert without - known == set(), "kernels that nothing runs: they need a case here"
    assert known - without == set(), "onnx has cases of these by now"


@pytest.mark.parametrize("key", OWN_CASES, ids=lambda key: f"{key[1]}-{key[2]}")
def test_own_case_passes(key: Key) -> None:
    found, expected = OWN_CASES[key]()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("key", TESTED_IN, ids=lambda key: f"{key[1]}-{key[2]}")
def test_the_test_that_is_named_is_there_and_knows_the_operator(key: Key) -> None:
    file, test = TESTED_IN[key]
    text = (TESTS / file).read_text("utf-8")
    assert re.search(rf"^def {test}\(", text, re.MULTILINE)
    assert f'"{key[1]}"' in text
