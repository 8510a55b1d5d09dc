"""The onnx package's light models, given real weights in place of constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

#: Our name → the model's file name without "light_".
LIGHT_MODELS: dict[str, str] = {
    "resnet50": "resnet50",
    "vgg19": "vgg19",
    "densenet121": "densenet121",
    "squeezenet": "squeezenet",
    "shufflenet": "shufflenet",
    "inception_v1": "inception_v1",
}
_OPSET = 13
_IR_VERSION = 8


def real_light_model(name: str, *, seed: int) -> onnx.ModelProto:
    """The light model with random weights that keep activations in bounds."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{LIGHT_MODELS[name]}.onnx")
    generator = np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            shape = [int(size) for size in shapes[node.input[0]]]
            graph.initializer.append(
                numpy_helper.from_array(_weights(generator, shape), node.output[0])
            )
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    _keep_variances_positive(graph)
    used = {value for node in kept for value in node.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(initializers)
    inputs = [value for value in graph.input if value.name not in shapes]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = _IR_VERSION  # from 4 on, initializers need not be inputs
    model = onnx.version_converter.convert_version(model, _OPSET)
    _keep_softmax_open(model, generator)
    return model


def _weights(
    generator: np.random.Generator, shape: list[int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    fan_in = max(int(np.prod(shape[1:])), 1)
    scale = np.sqrt(2 / fan_in) if len(shape) > 1 else 0.1
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def _keep_variances_positive(graph: onnx.GraphProto) -> None:
    """Batch normalization: scales and variances near 1."""
    near_one = {
        name
        for node in graph.node
        if node.op_type == "BatchNormalization"
        for name in (node.input[1], node.input[4])
    }
    for tensor in graph.initializer:
        if tensor.name in near_one:
            array = 1 + np.abs(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))


def _keep_softmax_open(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    """Scales the classifier before a last Softmax, for logits about 1 around their mean.

    Random weights make them so large that one class has all the probability, whatever else a
    runtime computes wrongly.
    """
    producers = {value: node for node in model.graph.node for value in node.output}
    softmax = producers[model.graph.output[0].name]
    if softmax.op_type == "Reshape":
        softmax = producers[softmax.input[0]]
    if softmax.op_type != "Softmax":
        return
    scale = np.float32(1 / _deviation(model, softmax.input[0], generator))
    classifier = producers[softmax.input[0]]
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    while classifier.op_type not in ("Conv", "Gemm"):  # what stands between them keeps the scale
        classifier = producers[classifier.input[0]]
    for name in classifier.input[1:]:
        weights[name].CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(weights[name]) * scale, name)
        )


def _deviation(model: onnx.ModelProto, value: str, generator: np.random.Generator) -> float:
    """The standard deviation of ``value`` on a random image."""
    import onnxruntime

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(onnx.ValueInfoProto(name=value))
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (image,) = session.get_inputs()
    pixels = generator.standard_normal(
        [size if isinstance(size, int) else 1 for size in image.shape]
    )
    (found,) = session.run([value], {image.name: pixels.astype(np.float32)})
    return float(found.std())
