"""Plain onnxruntime on this machine, without ortpkg: what it lists, and whether CUDA starts.

plain MODEL
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any


def main(model: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    start_s = time.perf_counter()
    import onnxruntime

    answer: dict[str, Any] = {
        "version": onnxruntime.__version__,
        "cuda": getattr(onnxruntime, "cuda_version", ""),
        "file": onnxruntime.__file__,
        "import_s": time.perf_counter() - start_s,
        "providers": onnxruntime.get_available_providers(),
        "devices": [_device(device) for device in onnxruntime.get_ep_devices()],
    }
    name = "CUDAExecutionProvider"
    if name in answer["providers"]:
        answer["starts_unprepared"] = _starts(onnxruntime, model, name)
    return answer


def _starts(onnxruntime: Any, model: str, name: str) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[name], enable_fallback=0)
    except Exception as error:  # noqa: BLE001 - that is the answer
        return f"error: {error}"[:300]
    return "yes" if name in session.get_providers() else "left out in silence"


def _device(device: Any) -> dict[str, Any]:
    hardware = device.device
    return {
        "ep": device.ep_name,
        "type": hardware.type.name,
        "vendor_id": hardware.vendor_id,
        "device_id": hardware.device_id,
        "metadata": dict(hardware.metadata),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
