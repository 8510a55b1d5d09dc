"""NVIDIA's driver and libraries as ortpkg finds them, and what of them is loaded from where."""

from __future__ import annotations

import json
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from ortpkg.runtime.providers.cuda_driver import ask_cuda_driver
from ortpkg.runtime.providers.nvidia_libraries import prepare_nvidia_libraries, wheel_folders
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime

_PARTS = ("libcu", "libnv", "libonnxruntime", "libtensorrt")


def main() -> dict[str, Any]:
    driver = ask_cuda_driver()
    onnxruntime = load_onnxruntime()
    start_s = time.perf_counter()
    missing = prepare_nvidia_libraries(onnxruntime)
    prepare_s = time.perf_counter() - start_s
    return {
        "driver_cuda": ".".join(map(str, driver.release)),
        "driver_failure": driver.failure,
        "devices": [device._asdict() for device in driver.devices],
        "versions": _versions(),
        "folders": list(map(str, wheel_folders())),
        "missing": "" if missing is None else str(missing),
        "prepare_s": prepare_s,
        "loaded": _loaded(),
    }


def _versions() -> dict[str, str]:
    names = ("nvidia-cublas", "nvidia-cudnn", "nvidia-cuda-runtime")
    recorded = {
        distribution.name: distribution.version
        for distribution in metadata.distributions()
        if distribution.name
    }
    return {name: text for name, text in sorted(recorded.items()) if name.startswith(names)}


def _loaded() -> list[str]:
    maps = Path("/proc/self/maps")
    lines = (
        maps.read_text(encoding="utf-8", errors="replace").splitlines() if maps.is_file() else []
    )
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if Path(path).name.startswith(_PARTS))


if __name__ == "__main__":
    print(json.dumps(main()))
