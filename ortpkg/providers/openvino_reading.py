"""ONNX models as OpenVINO's own, their comparisons turned to ones that it computes rightly.

The CPU plug-in of OpenVINO 2026.4.1 says true of Greater and GreaterOrEqual where an input is NaN,
but false of Less and LessOrEqual, as ONNX does. ``a > b`` is ``b < a`` for all numbers, so that it
is given the latter, and no model loses a comparison to a slower provider.
"""

from __future__ import annotations

from typing import Any

from ortpkg.providers.native_library import NativeModel
from ortpkg.providers.openvino_memory import lent_array, port_of
from ortpkg.providers.quiet_openvino import openvino, passes
from ortpkg.providers.quiet_openvino import operations as ops

_TURNED = {"Greater": ops.less, "GreaterEqual": ops.less_equal}


class _TurnComparisons(passes.MatcherPass):  # type: ignore[misc]
    """Exchanges the inputs of comparisons, in branches and bodies too."""

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
    """Return OpenVINO's model of an ONNX model, its weights where they are.

    Raises whatever OpenVINO does.
    """
    read = _read_with_weights(core, model) if model.weights else core.read_model(model.data)
    manager = passes.Manager()
    manager.register_pass(_TurnComparisons())
    manager.run_passes(read)
    return read


def _read_with_weights(core: Any, model: NativeModel) -> Any:
    """Return the model with its weights, inputs of the graph until here, as constants."""
    read = core.read_model(model.data)
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
