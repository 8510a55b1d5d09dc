"""ONNX models as OpenVINO's own, their comparisons turned to ones that it computes rightly.

The CPU plug-in of OpenVINO 2026.4.1 says true of Greater and GreaterOrEqual where an input is NaN,
but false of Less and LessOrEqual, as ONNX does. ``a > b`` is ``b < a`` for all numbers, so that it
is given the latter, and no model loses a comparison to a slower provider.
"""

from __future__ import annotations

from typing import Any

from ortpkg.providers.quiet_openvino import operations as ops
from ortpkg.providers.quiet_openvino import passes

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


def read_onnx(core: Any, data: Any) -> Any:
    """Return OpenVINO's model of an ONNX model's bytes; raises whatever OpenVINO does."""
    model = core.read_model(data)
    manager = passes.Manager()
    manager.register_pass(_TurnComparisons())
    manager.run_passes(model)
    return model
