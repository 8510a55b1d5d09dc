"""The names under which ONNX Runtime knows execution providers.

Source: ``include/onnxruntime/core/graph/constants.h`` of onnxruntime 1.19 to 1.31, names of removed providers
included, since packages outlive them. A plug-in may bring any other name, so an unknown one is a warning only.
"""

from __future__ import annotations

KNOWN_EP_NAMES: frozenset[str] = frozenset(
    {
        "ACLExecutionProvider",
        "ArmNNExecutionProvider",
        "AzureExecutionProvider",
        "CANNExecutionProvider",
        "CPUExecutionProvider",
        "CUDAExecutionProvider",
        "CoreMLExecutionProvider",
        "DmlExecutionProvider",
        "DnnlExecutionProvider",
        "JsExecutionProvider",
        "MIGraphXExecutionProvider",
        "NnapiExecutionProvider",
        "NvTensorRTRTXExecutionProvider",
        "OpenVINOExecutionProvider",
        "QNNExecutionProvider",
        "ROCMExecutionProvider",
        "RknpuExecutionProvider",
        "SNPEExecutionProvider",
        "TensorrtExecutionProvider",
        "TvmExecutionProvider",
        "VSINPUExecutionProvider",
        "VitisAIExecutionProvider",
        "WebGpuExecutionProvider",
        "WebNNExecutionProvider",
        "XnnpackExecutionProvider",
    }
)


def suggest_ep_name(name: str) -> str | None:
    """The known name that ``name`` was probably meant to be; None if nothing is near."""
    from difflib import get_close_matches  # imported here: only a doubtful package needs it

    by_stem = {_stem(known): known for known in sorted(KNOWN_EP_NAMES)}
    near = get_close_matches(_stem(name), by_stem, n=1, cutoff=0.75)
    return by_stem[near[0]] if near else None


def _stem(name: str) -> str:
    """What tells names apart: the common ending would make all of them look alike."""
    return name.lower().removesuffix("executionprovider")
