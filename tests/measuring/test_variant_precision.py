"""Precision of variants that state none, as packages of other tools: their models tell it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.cli.app import run
from ortpkg.package.package_info import VariantInfo
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.canary import canary
from ortpkg.selection.measuring.candidate_making import candidate_of, embedded_candidate
from ortpkg.selection.measuring.variant_precision import precision_of_variant

_HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
#: Kind of model → its graph, its precision.
_MODELS: dict[str, tuple[str, Precision | None]] = {
    "float32": ("g (float[2, 32] x) => (float[2, 32] y) { y = Neg(x) }", Precision.FP32),
    "float32 of bytes": (
        "g (uint8[2, 32] x) => (float[2, 32] y) { y = Cast <to = 1> (x) }",
        Precision.FP32,
    ),
    "float16": (
        """g (float[1, 2] x) => (float[1, 2] y) <float16[2] w = {1, 1}>
        { h = Cast <to = 10> (x) z = Mul(h, w) y = Cast <to = 1> (z) }""",
        Precision.FP16,
    ),
    "QDQ": (
        """g (float[2, 32] x) => (float[2, 32] y) <float s = {0.1}, int8 z = {0}>
        { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }""",
        Precision.INT8,
    ),
    "weights alone": (
        """g (float[2, 2] x) => (float[2, 2] y)
        <float s = {0.1}, int8 z = {0}, int8[2, 2] q = {1, 2, 3, 4}>
        { w = DequantizeLinear(q, s, z) y = MatMul(x, w) }""",
        Precision.INT8,
    ),
    "QLinear": (
        """g (uint8[2, 2] x) => (uint8[2, 2] y)
        <float s = {0.1}, uint8 z = {0}, uint8[2, 2] w = {1, 2, 3, 4}>
        { y = QLinearMatMul(x, s, z, w, s, z, s, z) }""",
        Precision.INT8,
    ),
    "dynamic": (
        """g (float[2, 2] x) => (float[2, 2] y)
        <uint8[2, 2] w = {1, 2, 3, 4}, uint8 wz = {2}>
        { q, s, z = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, z, wz)
          f = Cast <to = 1> (i) y = Mul(f, s) }""",
        Precision.INT8,
    ),
    "blocks of 4 bits": (
        """g (float[1, 32] x, uint8[1, 1, 16] w, float[1] s) => (float[1, 1] y)
        { y = com.microsoft.MatMulNBits <K = 32, N = 1, bits = 4, block_size = 32> (x, w, s) }""",
        Precision.INT4,
    ),
    "in a branch": (
        """g (bool c, float[2] x) => (float[2] y) <float s = {0.1}, int8 z = {0}>
        { y = If (c) <then_branch = t () => (float[2] a)
            { q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) },
          else_branch = e () => (float[2] b) { b = Neg(x) }> }""",
        Precision.INT8,
    ),
    "a bias alone in a float model": (
        """g (float[1, 2] x) => (float[1, 4] y)
        <float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int8[4] q = {1, 2, 3, 4}, float s = {0.1}>
        { b = DequantizeLinear(q, s) m = MatMul(x, w) y = Add(m, b) }""",
        Precision.FP32,
    ),
    "a bias alone in a float16 model": (
        """g (float16[1, 2] x) => (float16[1, 4] y)
        <float16[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int8[4] q = {1, 2, 3, 4}, float16 s = {1}>
        { b = DequantizeLinear(q, s) y = Gemm(x, w, b) }""",
        Precision.FP16,
    ),
    "half of the weights": (
        """g (float[1, 2] x) => (float[1, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, int8[2, 2] q = {1, 2, 3, 4}, float s = {0.1}>
        { v = DequantizeLinear(q, s) m = MatMul(x, v) y = MatMul(m, w) }""",
        Precision.INT8,
    ),
    "a table of floats, dynamic products": (
        """g (int64[2] i) => (float[2, 2] y)
        <float[4, 2] t = {1, 2, 3, 4, 5, 6, 7, 8}, uint8[2, 2] w = {1, 2, 3, 4}, uint8 wz = {2}>
        { x = Gather(t, i) q, s, z = DynamicQuantizeLinear(x) p = MatMulInteger(q, w, z, wz)
          f = Cast <to = 1> (p) y = Mul(f, s) }""",
        Precision.INT8,
    ),
    "floats that are quantized as the model runs": (
        """g (float[1, 2] x) => (float[1, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, float s = {0.1}, int8 z = {0}>
        { q = QuantizeLinear(w, s, z) v = DequantizeLinear(q, s, z) y = MatMul(x, v) }""",
        Precision.INT8,
    ),
    "quantized activations times floats": (
        """g (float[1, 2] x) => (float[1, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, float s = {0.1}, int8 z = {0}>
        { q = QuantizeLinear(x, s, z) v = DequantizeLinear(q, s, z) y = MatMul(v, w) }""",
        Precision.INT8,
    ),
    "blocks of 4 bits beside floats": (
        """g (float[1, 32] x) => (float[1, 24] y)
        <uint8[1, 1, 16] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, float[1] s = {1},
        float[1, 24] v = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}>
        { m = com.microsoft.MatMulNBits <K = 32, N = 1, bits = 4, block_size = 32> (x, w, s)
          y = MatMul(m, v) }""",
        Precision.INT4,
    ),
    "compiled": (
        """g (float[2] x) => (float[2] y)
        { y = com.microsoft.EPContext <source = "QNN", embed_mode = 1, ep_cache_context = "c"> (x) }""",
        None,
    ),
}


def _variant(model: Path | None, metadata: Mapping[str, Any] | None = None) -> VariantInfo:
    return VariantInfo(
        name="v",
        component_name="c",
        directory=Path(),
        model_path=model,
        metadata=metadata or {},
    )


def _saved(kind: str, folder: Path) -> Path:
    onnx.save(onnx.parser.parse_model(f"{_HEAD} {_MODELS[kind][0]}"), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("kind", _MODELS)
def test_the_model_tells_the_precision_of_a_variant_that_states_none(
    kind: str, tmp_path: Path
) -> None:
    assert precision_of_variant(_variant(_saved(kind, tmp_path))) is _MODELS[kind][1]


@pytest.mark.parametrize(
    ("metadata", "precision"),
    [
        ({"quantization": "qdq-int4"}, Precision.INT4),
        ({"quantization": None, "data_types": ["float16"]}, Precision.FP16),
        ({"data_types": ["float", "uint8"]}, Precision.FP32),
        ({"quantization": "of our own"}, Precision.FP32),
        ({"quantization": None}, Precision.FP32),
    ],
)
def test_a_stated_quantization_counts_before_the_model(
    metadata: dict[str, Any], precision: Precision, tmp_path: Path
) -> None:
    model = _saved("float32 of bytes", tmp_path)
    assert precision_of_variant(_variant(model, metadata)) is precision


@pytest.mark.parametrize(
    ("stated", "precision"), [("weight-int8", Precision.FP32), ("int8 of our own", Precision.INT8)]
)
def test_a_recorded_quantization_of_few_weights_does_not_count(
    stated: str, precision: Precision, tmp_path: Path
) -> None:
    """`create` records the model's word; another one is the publisher's knowledge."""
    model = _saved("a bias alone in a float model", tmp_path)
    metadata = {"quantization": stated, "data_types": ["float", "int8"]}
    assert precision_of_variant(_variant(model, metadata)) is precision
    assert precision_of_variant(_variant(None, metadata)) is Precision.INT8


@pytest.mark.parametrize("content", [None, b"no model"])
def test_where_no_model_can_be_read_data_types_count(content: bytes | None, tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    if content is not None:
        model.write_bytes(content)
    assert precision_of_variant(_variant(model)) is None
    assert precision_of_variant(_variant(None)) is None
    assert precision_of_variant(_variant(model, {"data_types": ["float16"]})) is Precision.FP16


@pytest.fixture
def bare_digits(few_digits: Path, tmp_path: Path) -> Path:
    """The digits package as a tool without facts of variants and without tolerances writes it."""
    root = tmp_path / few_digits.name
    shutil.copytree(few_digits, root)
    document = root / "models/classifier/metadata.json"
    metadata = json.loads(document.read_text())
    for key in ("model_variants", "variants"):
        for variant in metadata[key].values():
            variant.pop("metadata", None)
    document.write_text(json.dumps(metadata))
    document = root / "samples/samples.json"
    samples = json.loads(document.read_text())
    for sample in samples["samples"]:
        del sample["tolerances"], sample["variants"]
    document.write_text(json.dumps(samples))
    ortpkg.record_digests(root)
    return root


def _canary_reason(root: Path, name: str) -> str:
    package = ortpkg.ModelPackage(root)
    verdict = package.best_variant(variant=name).verdict(backend="embedded")
    return canary(package.info, verdict).reason


def test_int8_of_a_package_without_facts_is_right_and_not_put_into_quarantine(
    bare_digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _canary_reason(bare_digits, "cpu-int8") == ""
    words = ["--variant", "cpu-int8", "--backend", "embedded"]
    assert run(["run", str(bare_digits), *words]) == 0
    assert "0.25 of the largest, cosine 0.98" in " ".join(capsys.readouterr().out.split())


def test_float32_of_a_package_without_facts_may_not_be_off_as_int8_may(bare_digits: Path) -> None:
    assert _canary_reason(bare_digits, "cpu-fp32") == ""
    for file in (bare_digits / "samples").glob("*outputs.npz"):
        with np.load(file) as arrays:
            changed = {name: array * np.float32(1.03) for name, array in arrays.items()}
        np.savez(file, **changed)
    ortpkg.record_digests(bare_digits)
    assert _canary_reason(bare_digits, "cpu-int8") == ""
    assert "wrong output: logits is off by up to" in _canary_reason(bare_digits, "cpu-fp32")


def test_outputs_are_compared_with_those_of_float32_where_no_facts_are_stated(
    bare_digits: Path,
) -> None:
    package = ortpkg.ModelPackage(bare_digits)
    candidates = [
        candidate_of(
            package.info, package.best_variant(variant=name).verdict(backend="embedded"), (), False
        )
        for name in ("cpu-int8", "cpu-fp32")
    ]
    reference = embedded_candidate(candidates, this_machine())
    assert reference is not None
    assert reference.variant_name == "cpu-fp32"
