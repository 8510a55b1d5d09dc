"""Reads ONNX models into OpenVINO's own, with comparisons turned to ones that it gets right.

The CPU plug-in of OpenVINO 2026.4.1 returns true for Greater and GreaterOrEqual if an input is NaN,
but false for Less and LessOrEqual, as ONNX does. ``a > b`` is ``b < a`` for all numbers, so that it
gets the latter, and no model loses a comparison to a slower provider.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ortpkg.runtime.providers.native_library import NativeModel, NativeWeight
from ortpkg.runtime.providers.openvino_memory import lent_array, port_of
from ortpkg.runtime.providers.quiet_openvino import openvino, passes
from ortpkg.runtime.providers.quiet_openvino import operations as ops

_TURNED = {"Greater": ops.less, "GreaterEqual": ops.less_equal}

#: Location of external data that stands for an address in this process's memory.
_ADDRESS_LOCATION = "*/_ORT_MEM_ADDR_/*"


class _TurnComparisons(passes.MatcherPass):  # type: ignore[misc]
    """Pass that exchanges the inputs of comparisons, in branches and bodies too."""

    def __init__(self) -> None:
        super().__init__()
        pattern = passes.WrapType([f"opset1.{name}" for name in _TURNED])
        self.register_matcher(passes.Matcher(pattern, "TurnComparisons"), _turn)


def _turn(matcher: Any) -> bool:
    node = matcher.get_match_root()
    turned = _TURNED[node.get_type_name()](node.input_value(1), node.input_value(0))
    turned.set_friendly_name(node.get_friendly_name())
    # Ports are found by the names of their outputs (port_of).
    turned.output(0).get_tensor().add_names(node.output(0).get_tensor().names)
    for user in node.output(0).get_target_inputs():
        user.replace_source_output(turned.output(0))
    return True


def read_onnx(core: Any, model: NativeModel) -> Any:
    """Return OpenVINO's model of an ONNX model; its weights are not copied.

    Raises whatever OpenVINO raises.
    """
    read = _read_with_weights(core, model) if model.weights else core.read_model(model.data)
    manager = passes.Manager()
    manager.register_pass(_TurnComparisons())
    manager.run_passes(read)
    return read


def _read_with_weights(core: Any, model: NativeModel) -> Any:
    """Read the message, in which weights are inputs, and replace these by constants.

    OpenVINO converts some operators, such as MatMulNBits, with constants only. For these it gets
    a message with the weights' addresses, and copies them. Releases that know no addresses, before
    about 2025.4, get the weights inside of the message.
    """
    try:
        read = core.read_model(model.data)
    except Exception as error:
        for complete in (_by_address, _inside):
            with contextlib.suppress(Exception):
                return core.read_model(_with_constants(model, complete))
        raise error from None
    for name, weight in model.weights.items():
        port = read.inputs[port_of(read.inputs, name)]
        parameter = port.get_node()
        tensor = openvino.Tensor(
            lent_array(weight.data), openvino.Shape(weight.shape), parameter.get_element_type()
        )
        constant = openvino.op.Constant(tensor, shared_memory=True)
        constant.set_friendly_name(parameter.get_friendly_name())
        constant.output(0).get_tensor().set_names(port.get_tensor().get_names())
        port.replace(constant.output(0))
        read.remove_parameter(parameter)
    return read


def _with_constants(
    model: NativeModel, complete: Callable[[onnx.TensorProto, NativeWeight], None]
) -> bytes:
    """Return the message with an initializer for each weight.

    Args:
        model: has the weights as inputs.
        complete: gives an initializer its data.
    """
    proto = onnx.ModelProto.FromString(model.data)
    inputs = [value for value in proto.graph.input if value.name not in model.weights]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    for name, weight in model.weights.items():
        tensor = proto.graph.initializer.add(
            name=name, data_type=weight.element_type, dims=weight.shape
        )
        complete(tensor, weight)
    data: bytes = proto.SerializeToString()
    return data


def _by_address(tensor: onnx.TensorProto, weight: NativeWeight) -> None:
    address = np.frombuffer(weight.data, np.uint8).ctypes.data
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (
        ("location", _ADDRESS_LOCATION),
        ("offset", address),
        ("length", weight.data.nbytes),
    ):
        tensor.external_data.add(key=key, value=str(value))


def _inside(tensor: onnx.TensorProto, weight: NativeWeight) -> None:
    tensor.raw_data = bytes(weight.data)
