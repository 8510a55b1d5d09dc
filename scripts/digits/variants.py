"""The package's five variants: numerics, execution provider, demanded exactness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

from scripts.digits.network import Network
from scripts.digits.numerics import (
    HalfPrecision,
    HalfPrecisionWeights,
    Numerics,
    Quantized,
    SinglePrecision,
    write_model,
)

DYNAMIC_BATCH = "batch"

_METADATA = {
    "dataset": "UCI Optical Recognition of Handwritten Digits, as shipped by scikit-learn",
    "dataset_license": "CC-BY-4.0",
    "license": "MIT",
    "classes": "0,1,2,3,4,5,6,7,8,9",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One model file of the package.

    Attributes:
        name: of the variant, and of its folder.
        ep, device: the constraints.
        provider_options: for the execution provider.
        summary: one sentence, for the model's doc_string and the model card.
        quantization_algorithm: for metadata.json; None where nothing is quantized.
        numerics: calibrated ranges → how the graph is written.
        batch: a size, or a symbol.
        absolute_tolerance: how far a logit may be from the float64 result on the device that the
            variant is for: the error measured here, with a margin for other rounding (see the model
            card).
        relative_tolerance: the same relative to the logit; a logit may be off by the sum of both.
    """

    name: str
    ep: str
    device: str
    provider_options: Mapping[str, str]
    summary: str
    quantization_algorithm: str | None
    numerics: Callable[[Mapping[str, float]], Numerics]
    batch: int | str
    absolute_tolerance: float
    relative_tolerance: float

    def write_model(self, network: Network, calibration: Mapping[str, float]) -> onnx.ModelProto:
        """The ONNX model of this variant; ``calibration``: activation → greatest value seen."""
        algorithm = (
            {"quantization_algorithm": self.quantization_algorithm}
            if self.quantization_algorithm
            else {}
        )
        return write_model(
            network,
            self.numerics(calibration),
            batch=self.batch,
            doc_string=f"Handwritten digits, 8x8 grey levels to 10 logits. {self.summary}",
            metadata={**_METADATA, **algorithm},
        )


VARIANTS = (
    Variant(
        name="cpu-fp32",
        ep="CPUExecutionProvider",
        device="cpu",
        provider_options={},
        summary="float32 throughout, BatchNormalization as nodes of its own, any batch.",
        quantization_algorithm=None,
        numerics=lambda _: SinglePrecision(),
        batch=DYNAMIC_BATCH,
        absolute_tolerance=1e-4,
        relative_tolerance=1e-4,
    ),
    Variant(
        name="cpu-int8",
        ep="CPUExecutionProvider",
        device="cpu",
        provider_options={},
        summary=(
            "Static QDQ quantization with 7-bit weights, which no x86 CPU saturates on, any batch."
        ),
        quantization_algorithm=(
            "static, min-max; uint8 activations per tensor; 7-bit symmetric weights per channel"
        ),
        numerics=lambda greatest: Quantized(greatest, weight_limit=63),
        batch=DYNAMIC_BATCH,
        absolute_tolerance=0.25,
        relative_tolerance=0.0,
    ),
    Variant(
        name="openvino-npu",
        ep="OpenVINOExecutionProvider",
        device="npu",
        provider_options={"device_type": "NPU"},
        summary=(
            "Static QDQ quantization with 8-bit symmetric weights, batch 1: NPUs take static shapes"
            " only."
        ),
        quantization_algorithm=(
            "static, min-max; uint8 activations per tensor; 8-bit symmetric weights per channel"
        ),
        numerics=lambda greatest: Quantized(greatest, weight_limit=127),
        batch=1,
        absolute_tolerance=0.2,
        relative_tolerance=0.0,
    ),
    Variant(
        name="openvino-gpu",
        ep="OpenVINOExecutionProvider",
        device="gpu",
        provider_options={"device_type": "GPU"},
        summary=(
            "float16 weights behind Cast, which OpenVINO's GPU plug-in uses as they are, any batch."
        ),
        quantization_algorithm=None,
        numerics=lambda _: HalfPrecisionWeights(),
        batch=DYNAMIC_BATCH,
        absolute_tolerance=0.02,
        relative_tolerance=0.001,
    ),
    Variant(
        name="cuda",
        ep="CUDAExecutionProvider",
        device="gpu",
        provider_options={},
        summary=(
            "float16 throughout, between Cast nodes that keep the float32 interface, any batch."
        ),
        quantization_algorithm=None,
        numerics=lambda _: HalfPrecision(),
        batch=DYNAMIC_BATCH,
        absolute_tolerance=0.02,
        relative_tolerance=0.001,
    ),
)
