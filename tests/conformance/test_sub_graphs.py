"""What a sub-graph captures or passes through survives what is computed in place around it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.conformance.runtimes import ortpkg_runtime

MODEL = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, bool c) => (float[4] difference, float[4] state, float[4] sums) {
  a = Abs(x)
  chosen = If(c) <
    then_branch = t () => (float[4] t1) { t1 = Identity(a) },
    else_branch = f () => (float[4] f1) { f1 = Neg(a) }
  >
  negative = Neg(chosen)
  difference = Add(a, negative)
  trips = Constant <value_int = 3> ()
  state, scanned = Loop(trips, c, a) <
    body = l (int64 i, bool going, float[4] v) => (bool going_on, float[4] same, float[4] outer) {
      going_on = Identity(going)
      same = Identity(v)
      outer = Identity(a)
    }
  >
  changed = Neg(state)
  unused = Exp(changed)
  axes = Constant <value_ints = [0]> ()
  sums = ReduceSum <keepdims = 0> (scanned, axes)
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_passed_through_values_are_not_overwritten(condition: bool) -> None:
    run = ortpkg_runtime(onnx.parser.parse_model(MODEL))
    x = np.array([1, -2, 3, -4], np.float32)
    for _ in range(3):  # the second run has a memory pattern
        difference, state, sums = run([x, np.array(condition)])
        assert difference.tolist() == ([0, 0, 0, 0] if condition else [2, 4, 6, 8])
        assert state.tolist() == [1, 2, 3, 4]
        assert sums.tolist() == ([3, 6, 9, 12] if condition else [0, 0, 0, 0])
