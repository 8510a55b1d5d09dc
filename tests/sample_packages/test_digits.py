"""The digits package is what it says: accurate, consistent, complete, honest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest

from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.sample_packages.conftest import VARIANTS, Digits, FloatArray

LEAST_ACCURACY = 0.97
MOST_NBYTES = 600_000
FLOAT = onnx.TensorProto.FLOAT


def in_batches(
    run: Callable[[FloatArray], Any], model_path: Path, images: FloatArray
) -> FloatArray:
    """Runs ``images`` in batches of the size that the model demands.

    All at once where it takes any.
    """
    batch = onnx.load(model_path).graph.input[0].type.tensor_type.shape.dim[0]
    step = batch.dim_value or len(images)
    return np.concatenate(
        [run(images[start : start + step]) for start in range(0, len(images), step)]
    )


def onnxruntime_logits(model_path: Path, images: FloatArray) -> FloatArray:
    session = onnxruntime.InferenceSession(model_path, providers=["CPUExecutionProvider"])
    return in_batches(
        lambda batch: session.run(["logits"], {"image": batch})[0], model_path, images
    )


def interface(model: onnx.ModelProto) -> list[tuple[str, int, int]]:
    values = [*model.graph.input, *model.graph.output]
    return [
        (each.name, each.type.tensor_type.elem_type, len(each.type.tensor_type.shape.dim))
        for each in values
    ]


def test_held_out_part_is_a_stratified_fifth_of_the_scans(digits: Digits) -> None:
    assert len(digits.images) == len(digits.labels) == len(digits.expected) == 360
    assert sorted(np.bincount(digits.labels)) == [35, *[36] * 8, 37]


@pytest.mark.parametrize("variant", VARIANTS)
def test_embedded_engine_classifies_at_least_97_percent_right(digits: Digits, variant: str) -> None:
    session = InferenceSession(digits.model_path(variant))
    logits = in_batches(
        lambda batch: session.run(["logits"], {"image": batch})[0],
        digits.model_path(variant),
        digits.images,
    )
    assert digits.accuracy(logits) >= LEAST_ACCURACY
    assert digits.greatest_excess(variant, logits) <= 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_onnxruntime_agrees_with_the_expected_outputs(digits: Digits, variant: str) -> None:
    logits = onnxruntime_logits(digits.model_path(variant), digits.images)
    assert digits.greatest_excess(variant, logits) <= 0
    assert digits.accuracy(logits) >= LEAST_ACCURACY


@pytest.mark.parametrize("variant", ["openvino-npu", "openvino-gpu"])
def test_openvino_agrees_with_the_expected_outputs_of_its_variants(
    digits: Digits, variant: str
) -> None:
    openvino = pytest.importorskip("openvino", reason="the openvino extra is not installed")
    # On a CPU with bf16 OpenVINO would compute in that, which is coarser than the devices that are
    # meant.
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(digits.model_path(variant)), "CPU", hint)
    logits = in_batches(
        lambda batch: compiled({"image": batch})["logits"],
        digits.model_path(variant),
        digits.images,
    )
    assert digits.greatest_excess(variant, logits) <= 0
    assert digits.accuracy(logits) >= LEAST_ACCURACY


def test_float16_arithmetic_agrees_with_the_expected_outputs_of_cuda(digits: Digits) -> None:
    # Unlike onnxruntime on a CPU, which computes float16 models in float32, this rounds at every
    # step, as a GPU does.
    evaluator = onnx.reference.ReferenceEvaluator(str(digits.model_path("cuda")))
    logits = evaluator.run(["logits"], {"image": digits.images[:40]})[0]
    assert digits.greatest_excess("cuda", logits) <= 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_tolerance_is_tight_enough_to_notice_logits_ten_percent_off(
    digits: Digits, variant: str
) -> None:
    assert digits.greatest_excess(variant, digits.expected * np.float32(1.1)) > 0


@pytest.mark.requirement("K24")
@pytest.mark.parametrize("variant", VARIANTS)
def test_metadata_states_the_measured_accuracy(digits: Digits, variant: str) -> None:
    measured = digits.accuracy(onnxruntime_logits(digits.model_path(variant), digits.images))
    # One scan more or less: another CPU's rounding may tip a close decision.
    assert digits.variants[variant]["metadata"]["accuracy"] == pytest.approx(
        measured, abs=1.5 / len(digits.labels)
    )


def test_variants_are_those_of_the_documents_in_order(digits: Digits) -> None:
    assert tuple(digits.variants) == VARIANTS
    assert {*digits.sample["variants"]} <= {*VARIANTS}


def test_variants_have_the_interface_that_the_manifest_states(digits: Digits) -> None:
    stated = [*digits.manifest["inputs"], *digits.manifest["outputs"]]
    expected = [(value["name"], FLOAT, len(value["shape"])) for value in stated]
    assert [value["type"] for value in stated] == ["tensor(float)", "tensor(float)"]
    assert [interface(onnx.load(digits.model_path(variant))) for variant in VARIANTS] == [
        expected
    ] * len(VARIANTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_model_passes_the_full_checker(digits: Digits, variant: str) -> None:
    onnx.checker.check_model(onnx.load(digits.model_path(variant)), full_check=True)


def test_npu_model_has_static_shapes_only(digits: Digits) -> None:
    graph = onnx.load(digits.model_path("openvino-npu")).graph
    dimensions = [
        dim for value in (*graph.input, *graph.output) for dim in value.type.tensor_type.shape.dim
    ]
    assert all(dimension.dim_value > 0 for dimension in dimensions)


@pytest.mark.parametrize("variant", ["cpu-int8", "openvino-npu"])
def test_quantized_model_quantizes_every_convolution_and_the_linear_layer(
    digits: Digits, variant: str
) -> None:
    graph = onnx.load(digits.model_path(variant)).graph
    dequantized = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    computed = [node for node in graph.node if node.op_type in {"Conv", "Gemm"}]
    assert len(computed) == 4
    assert all({*node.input} <= dequantized for node in computed)


def test_cpu_int8_weights_leave_a_bit_free_against_saturation(digits: Digits) -> None:
    weights = [
        onnx.numpy_helper.to_array(initializer)
        for initializer in onnx.load(digits.model_path("cpu-int8")).graph.initializer
        if initializer.name.endswith(".weight_quantized")
    ]
    assert [int(np.abs(weight).max()) for weight in weights] == [63, 63, 63, 63]


def test_no_file_is_a_copy_of_another(digits: Digits) -> None:
    files = [path for path in digits.root.rglob("*") if path.is_file()]
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in files}) == len(files)


def test_every_file_is_one_that_the_documents_know(digits: Digits) -> None:
    samples = [digits.sample[key] for key in ("inputs", "expected_outputs")] + [
        digits.sample["labels"]["file"]
    ]
    known = {
        *(
            "README.md",
            "manifest.json",
            "digests.json",
            "models/classifier/metadata.json",
            "samples/samples.json",
        ),
        *(digits.model_path(variant).relative_to(digits.root).as_posix() for variant in VARIANTS),
        *(f"samples/{file}" for file in samples),
    }
    assert {
        path.relative_to(digits.root).as_posix()
        for path in digits.root.rglob("*")
        if path.is_file()
    } == known


def test_digests_hold(digits: Digits) -> None:
    assert check_digests(digits.root) == ()


def test_package_is_small(digits: Digits) -> None:
    assert (
        sum(path.stat().st_size for path in digits.root.rglob("*") if path.is_file()) < MOST_NBYTES
    )


def test_sample_archives_have_no_time_stamps(digits: Digits) -> None:
    for file in (digits.root / "samples").glob("*.npz"):
        with ZipFile(file) as archive:
            assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
