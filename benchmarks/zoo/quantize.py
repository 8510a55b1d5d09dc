"""int8 and float16 forms of the zoo's models, made by onnxruntime's own tools."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

Arrays = Mapping[str, np.ndarray[Any, Any]]
_CALIBRATIONS = 4


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """A few variations of one input."""

    def __init__(self, feeds: Arrays) -> None:
        generator = np.random.default_rng(0)
        self._left = [
            {name: _varied(array, generator) for name, array in feeds.items()}
            for _ in range(_CALIBRATIONS)
        ]

    def get_next(self) -> Arrays | None:
        return self._left.pop() if self._left else None


def _varied(array: np.ndarray[Any, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    if array.dtype.kind != "f":
        return array
    noise = np.asarray(generator.standard_normal(array.shape) * 0.1, dtype=array.dtype)
    varied: np.ndarray[Any, Any] = array + noise
    return varied


def quantize_qdq(source: Path, target: Path, feeds: Arrays) -> None:
    """Static quantization by Q/DQ pairs: uint8 activations, int8 weights."""
    with tempfile.TemporaryDirectory() as folder:
        whole, prepared = _whole(source, folder), Path(folder) / "prepared.onnx"
        quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(target),
            _Reader(feeds),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )


def quantize_dynamic(source: Path, target: Path, _feeds: Arrays) -> None:
    """Weights int8, activations quantized in the run."""
    with tempfile.TemporaryDirectory() as folder:
        whole = _whole(source, folder)
        quantization.quantize_dynamic(
            str(whole), str(target), weight_type=quantization.QuantType.QInt8
        )


def _whole(source: Path, folder: str) -> Path:
    """The model in one file, without inner shapes: tools lose external data and change these."""
    model = onnx.load(source)
    del model.graph.value_info[:]
    onnx.save(model, Path(folder) / "whole.onnx")
    return Path(folder) / "whole.onnx"


def to_float16(source: Path, target: Path) -> None:
    """Weights and computation in float16, inputs and outputs in float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)
