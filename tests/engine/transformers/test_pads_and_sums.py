"""Padding moves into convolutions, and sums of two become additions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.engine.transformers.pad_fusion import PAD_FUSION
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.sum_to_add import SUM_TO_ADD
from tests.engine.transformers.transformation import (
    EVERY_KERNEL,
    assert_becomes,
    assert_unchanged,
    named_constants,
    parse,
)

PAD, SUM = RuleDriver("test", [PAD_FUSION]), RuleDriver("test", [SUM_TO_ADD])


def weights(*texts: str) -> dict[str, Any]:
    """The constants that the texts name."""
    arrays: dict[str, Any] = {
        "none": np.float32(0), "one": np.float32(1),
        "k": np.random.default_rng(9).standard_normal((3, 2, 3, 3)).astype(np.float32),
        "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]), "crop": np.array([0, 0, -1, 0, 0, 0, 0, 0]),
        "spatial": np.array([1, 1, 1, 1]), "axes": np.array([2, 3]),
        "turned": np.array([0, 1, 3, 2]), "before": np.array([0, 1, 1, 0, 0, 0, 0, 0]),
        "behind": np.array([0, 0, 1, 0, 0, 1, 0, 0]), "three_channels": np.ones((3, 3, 3, 3), np.float32),
    }  # fmt: skip
    return named_constants(arrays, *texts)


def assert_body_becomes(
    transformer: RuleDriver, inputs: str, before: str, after: str, outputs: str, **header: str
) -> None:
    lead = header.get("header", "")
    assert_becomes(
        transformer,
        before=f"{lead}g ({inputs}) => ({outputs}) {{ {before} }}",
        after=f"{lead}g ({inputs}) => ({outputs}) {{ {after} }}",
        weights=weights(before, after),
        context=EVERY_KERNEL,
    )


def assert_body_unchanged(transformer: RuleDriver, inputs: str, body: str, outputs: str) -> None:
    assert_unchanged(
        transformer,
        f"g ({inputs}) => ({outputs}) {{ {body} }}",
        weights=weights(body),
        context=EVERY_KERNEL,
    )


IMAGE = "float[1, 2, 7, 7] x, float[1, 3, 5, 5] r"


@pytest.mark.parametrize(
    ("pad", "conv", "after", "outputs"),
    [
        ("Pad(x, pads)", "Conv(a, k)", "<auto_pad = \"NOTSET\", pads = [1, 2, 0, 1]>", "float[1, 3, 6, 8] y"),
        ("Pad(x, pads, none)", "Conv <pads = [1, 1, 1, 1]> (a, k)", "<auto_pad = \"NOTSET\", pads = [2, 3, 1, 2]>",
         "float[1, 3, 8, 10] y"),
        ('Pad <mode = "constant"> (x, pads)', 'Conv <auto_pad = "VALID"> (a, k)',
         "<auto_pad = \"NOTSET\", pads = [1, 2, 0, 1]>", "float[1, 3, 6, 8] y"),
        ("Pad(x, pads)", 'Conv <auto_pad = "VALID", pads = [1, 1, 1, 1]> (a, k)',
         "<auto_pad = \"NOTSET\", pads = [1, 2, 0, 1]>", "float[1, 3, 6, 8] y"),
    ],
)  # fmt: skip
def test_padding_moves_into_the_convolution(pad: str, conv: str, after: str, outputs: str) -> None:
    assert_body_becomes(PAD, IMAGE, f"a = {pad} y = {conv}", f"y = Conv {after} (x, k)", outputs)


def test_padding_by_attribute_moves_into_the_convolution() -> None:
    assert_body_becomes(
        PAD,
        "float[1, 2, 7, 7] x",
        "a = Pad <pads = [0, 0, 1, 2, 0, 0, 0, 1]> (x) y = Conv(a, k)",
        'y = Conv <auto_pad = "NOTSET", pads = [1, 2, 0, 1]> (x, k)',
        "float[1, 3, 6, 8] y",
        header='<ir_version: 5, opset_import: ["" : 9]>\n',
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Pad(x, pads, one) y = Conv(a, k)", "float[1, 3, 6, 8] y"),
        ('a = Pad <mode = "edge"> (x, pads) y = Conv(a, k)', "float[1, 3, 6, 8] y"),
        ("a = Pad(x, spatial, none, axes) y = Conv(a, k)", "float[1, 3, 7, 7] y"),
        ("a = Pad(x, pads, none, turned) y = Conv(a, k)", "float[1, 3, 7, 7] y"),
        ("a = Pad(x, before) y = Conv(a, three_channels)", "float[1, 3, 6, 5] y"),
        ("a = Pad(x, behind) y = Conv(a, three_channels)", "float[1, 3, 6, 5] y"),
        ('a = Pad(x, pads) y = Conv <auto_pad = "SAME_UPPER"> (a, k)', "float[1, 3, 8, 10] y"),
        ("a = Pad(x, pads) y = Conv(a, k)", "float[1, 3, 6, 8] y, float[1, 2, 8, 10] a"),
    ],
    ids=[
        "of ones",
        "of edges",
        "of some axes",
        "of axes in another order",
        "of a channel before the others",
        "of a channel behind the others",
        "convolution pads by itself",
        "is an output",
    ],
)
def test_other_padding_stays(body: str, outputs: str) -> None:
    assert_body_unchanged(PAD, IMAGE, body, outputs)


def test_padding_by_attribute_with_other_than_zeros_stays() -> None:
    text = (
        '<ir_version: 5, opset_import: ["" : 9]>\ng (float[1, 2, 7, 7] x) => (float[1, 3, 6, 8] y)'
        " { a = Pad <pads = [0, 0, 1, 2, 0, 0, 0, 1], value = 1.0> (x) y = Conv(a, k) }"
    )
    assert_unchanged(PAD, text, weights=weights(text), context=EVERY_KERNEL)


def test_cropping_stays() -> None:
    text = f"g ({IMAGE}) => (float[1, 3, 4, 5] y) {{ a = Pad(x, crop) y = Conv(a, k) }}"
    model = load_model(parse(text, weights(text)))
    infer_types(model)

    assert not PAD.apply(model.graph, EVERY_KERNEL)


def test_sum_of_two_is_an_addition_and_of_one_nothing() -> None:
    assert_body_becomes(
        SUM, IMAGE, "a = Sum(x) y = Sum(a, x)", "y = Add(x, x)", "float[1, 2, 7, 7] y"
    )


def test_sum_of_three_stays() -> None:
    assert_body_unchanged(SUM, IMAGE, "y = Sum(x, x, x)", "float[1, 2, 7, 7] y")
