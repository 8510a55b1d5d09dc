"""Sessions of OpenVINO that nobody closes give back what they have mapped."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import onnx.parser
import pytest

pytest.importorskip("openvino")

from ortpkg.runtime.session.inference_session import InferenceSession

_MODEL = (
    '<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (float[4] y) { a = Relu(x) y ='
    " Add(a, a) }"
)
_SESSIONS = 20


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells of a process's own mappings"
)
def test_sessions_that_are_dropped_leave_no_mappings(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx.parser.parse_model(_MODEL).SerializeToString())

    def use(count: int) -> list[InferenceSession]:
        return [
            InferenceSession(str(model), providers=["OpenVINOExecutionProvider"])
            for _ in range(count)
        ]

    use(_SESSIONS)
    gc.collect()
    before = count_mappings()
    use(_SESSIONS)
    gc.collect()
    dropped = count_mappings()
    kept = use(_SESSIONS)

    assert dropped - before < _SESSIONS // 2
    assert count_mappings() - dropped > len(kept)  # what is counted is what sessions hold


def count_mappings() -> int:
    return len(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines())
