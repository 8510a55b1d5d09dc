"""Runs models in onnxruntime's CPU provider: for calibration, and to measure what was written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from scripts.digits.data import FloatArray, Scans
from scripts.digits.graph_builder import INPUT, OUTPUT
from scripts.digits.network import Array


def calibrate(model: onnx.ModelProto, scans: Scans, activations: Sequence[str]) -> dict[str, float]:
    """The greatest value that the input and each of ``activations`` takes over ``scans``."""
    instrumented = onnx.ModelProto()
    instrumented.CopyFrom(model)
    instrumented.graph.output.extend(onnx.ValueInfoProto(name=name) for name in activations)
    values = _session(instrumented).run(list(activations), {INPUT: scans.images})
    greatest = {name: float(np.max(value)) for name, value in zip(activations, values, strict=True)}
    return {INPUT: float(np.max(scans.images)), **greatest}


def run(model: onnx.ModelProto, images: FloatArray) -> FloatArray:
    """The logits of all images, in as many runs as the model's batch dimension demands."""
    session = _session(model)
    batch = session.get_inputs()[0].shape[0]
    step = batch if isinstance(batch, int) else len(images)
    parts = [
        session.run([OUTPUT], {INPUT: images[start : start + step]})[0]
        for start in range(0, len(images), step)
    ]
    return np.concatenate(parts)


def accuracy(logits: npt.NDArray[np.floating], scans: Scans) -> float:
    """The share of scans whose greatest logit is their label's."""
    return float(np.mean(np.argmax(logits, axis=1) == scans.labels))


def greatest_error(logits: FloatArray, expected: Array) -> float:
    return float(np.max(np.abs(logits - expected)))


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
