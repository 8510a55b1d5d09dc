"""The newest ONNX versions that a release is said to read are those it reads when installed."""

from __future__ import annotations

import onnxruntime
import pytest

from ortpkg.authoring.checks.release_checks import NEWEST_IR_VERSION, NEWEST_OPSETS
from tests.authoring.checks.trees import model


def _opens(serialized: bytes) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  # onnxruntime's own classes derive from nothing else
        return False
    return True


@pytest.mark.interop
@pytest.mark.skipif(
    not onnxruntime.__version__.startswith("1.31."), reason="the versions are those of 1.26 to 1.31"
)
def test_newest_versions_are_those_of_the_release() -> None:
    newest = NEWEST_OPSETS[""]
    assert [
        _opens(model(ir_version=version)) for version in (NEWEST_IR_VERSION, NEWEST_IR_VERSION + 1)
    ] == [
        True,
        False,
    ]
    assert [_opens(model(opset=version)) for version in (newest, newest + 1)] == [True, False]
