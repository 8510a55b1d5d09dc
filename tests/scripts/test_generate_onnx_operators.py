"""The table of ONNX's own operators is generated and current."""

from __future__ import annotations

import onnx
import pytest

from ortpkg.graph.onnx_operators import FIRST_OPSETS, NEWEST_OPSETS, ONNX_VERSION
from ortpkg.graph.onnx_opsets import OperatorState, operator_state
from scripts.generate_onnx_operators import MODULE, module

pytestmark = pytest.mark.skipif(
    onnx.__version__ != ONNX_VERSION,
    reason=f"the table was made with onnx {ONNX_VERSION}, which defines other operators",
)


def test_committed_table_is_current() -> None:
    assert MODULE.read_text(encoding="utf-8") == module(), "run `make docs`"


def test_the_table_says_what_onnx_says_of_every_operator_in_every_opset() -> None:
    """But for what was out of use for a while and is in use again."""
    differing = set()
    for domain, operators in FIRST_OPSETS.items():
        for opset in range(1, NEWEST_OPSETS[domain] + 1):
            for name in operators:
                known = onnx.defs.has(name, opset, domain)
                schema = onnx.defs.get_schema(name, opset, domain) if known else None
                is_plain = schema is not None and not schema.deprecated
                said = operator_state(domain, name, opset)
                if is_plain is not (said is OperatorState.DEFINED):
                    differing.add((name, opset))
    assert differing == {("GroupNormalization", opset) for opset in (18, 19, 20)}
