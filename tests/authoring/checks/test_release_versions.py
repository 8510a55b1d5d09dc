"""The newest ONNX versions that a release is said to read are those it reads when installed."""

from __future__ import annotations

import onnxruntime
import pytest

from ortpkg.authoring.checks.release_checks import NEWEST_READ
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
def test_newest_versions_are_those_of_the_release() -> None:
    minor = int(onnxruntime.__version__.split(".")[1])
    newest = NEWEST_READ[f"onnxruntime-1.{minor}"]

    versions = (newest.ir_version, newest.ir_version + 1)
    assert [_opens(model(ir_version=version)) for version in versions] == [True, False]
    opsets = (newest.opsets[""], newest.opsets[""] + 1)
    assert [_opens(model(opset=version)) for version in opsets] == [True, False]
