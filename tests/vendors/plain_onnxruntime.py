"""A program with onnxruntime alone: compiles or runs a model on a wheel's library.

``python -m tests.vendors.plain_onnxruntime '{"ep": ..., "model": ..., "options": {...}, "output":
...}'`` prints JSON.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
MODULES = {
    "QNNExecutionProvider": "onnxruntime_qnn",
    "OpenVINOExecutionProvider": "onnxruntime_ep_openvino",
}


def plain_onnxruntime(**request: Any) -> Any:
    """The program's answer, or ``{"error"}``.

    ``{"compatibility"}`` for one with ``output``, ``{"rating"}`` for one that ``rates``, else
    ``{"outputs"}``.
    """
    words = [sys.executable, "-m", "tests.vendors.plain_onnxruntime", json.dumps(request)]
    done = subprocess.run(
        words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=240
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return json.loads(lines[-1])


def _answer(
    ep: str, model: str, options: dict[str, str], output: str = "", *, rates: bool = False
) -> dict[str, Any]:
    import numpy as np
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    onnxruntime.set_default_logger_severity(4)
    onnxruntime.register_execution_provider_library(
        ep, importlib.import_module(MODULES[ep]).get_library_path()
    )
    session_options = onnxruntime.SessionOptions()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == ep]
    session_options.add_provider_for_devices(devices[:1], options)
    if rates:
        info = state.get_compatibility_info_from_model_bytes(Path(model).read_bytes(), ep)
        return {"rating": state.get_model_compatibility_for_ep_devices(devices[:1], info).name}
    if output:
        compiled = onnxruntime.ModelCompiler(
            session_options, model, embed_compiled_data_into_model=True
        )
        compiled.compile_to_file(output)
        return {
            "compatibility": state.get_compatibility_info_from_model_bytes(
                Path(output).read_bytes(), ep
            )
        }
    session = onnxruntime.InferenceSession(model, session_options, enable_fallback=0)
    (taken,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 1 for size in taken.shape]
    feed = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return {"outputs": [each.tolist() for each in session.run(None, {taken.name: feed})]}


def _main() -> None:
    try:
        answer = _answer(**json.loads(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - it is the answer
        answer = {"error": str(error)}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    _main()
