"""Names of execution providers: ONNX Runtime's, in its priority order, and their short forms.

Source of names and order: ``onnxruntime.get_all_providers()`` of 1.31 (its list of providers by
default priority, CPU last). Names of providers that later releases dropped are known too, because
packages that name them exist.
An unknown name is never an error here: a package may name an execution provider that does not exist
    yet.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import closest

CPU_EP = "CPUExecutionProvider"
OPENVINO_EP = "OpenVINOExecutionProvider"
QNN_EP = "QNNExecutionProvider"
#: An EP of ortpkg, which compiles what it claims to machine code.
LLVM_EP = "LLVMExecutionProvider"
#: EPs of ortpkg, which no release of ONNX Runtime knows.
OWN_EPS = frozenset({LLVM_EP})
#: EP of earlier releases of ortpkg; packages may name it, and it may have made contexts.
REMOVED_EP = "PrepackExecutionProvider"

#: Full names, best first: ONNX Runtime's default priority order. CPU is last.
KNOWN_EPS: tuple[str, ...] = (
    "NvTensorRTRTXExecutionProvider",
    "TensorrtExecutionProvider",
    "CUDAExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    OPENVINO_EP,
    "DnnlExecutionProvider",
    "TvmExecutionProvider",
    "VitisAIExecutionProvider",
    QNN_EP,
    "SNPEExecutionProvider",
    "NnapiExecutionProvider",
    "VSINPUExecutionProvider",
    "JsExecutionProvider",
    "CoreMLExecutionProvider",
    "ArmNNExecutionProvider",
    "ACLExecutionProvider",
    "DmlExecutionProvider",
    "RknpuExecutionProvider",
    "WebNNExecutionProvider",
    "WebGpuExecutionProvider",
    "XnnpackExecutionProvider",
    "CANNExecutionProvider",
    "AzureExecutionProvider",
    CPU_EP,
)

#: Names that ``get_all_providers()`` of onnxruntime 1.31 has, without those that later releases
#: dropped.
RELEASE_EPS: tuple[str, ...] = tuple(
    name
    for name in KNOWN_EPS
    if name
    not in {
        "ROCMExecutionProvider",
        "TvmExecutionProvider",
        "SNPEExecutionProvider",
        "ArmNNExecutionProvider",
    }
)

#: Short forms, lower case, without "-", "_" and spaces.
EP_ALIASES: dict[str, str] = {
    "cpu": CPU_EP,
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "trt": "TensorrtExecutionProvider",
    "tensorrtrtx": "NvTensorRTRTXExecutionProvider",
    "nvtensorrtrtx": "NvTensorRTRTXExecutionProvider",
    "trtrtx": "NvTensorRTRTXExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "openvino": OPENVINO_EP,
    "ov": OPENVINO_EP,
    "dnnl": "DnnlExecutionProvider",
    "onednn": "DnnlExecutionProvider",
    "tvm": "TvmExecutionProvider",
    "vitisai": "VitisAIExecutionProvider",
    "ryzenai": "VitisAIExecutionProvider",
    "qnn": QNN_EP,
    "snpe": "SNPEExecutionProvider",
    "nnapi": "NnapiExecutionProvider",
    "vsinpu": "VSINPUExecutionProvider",
    "js": "JsExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "armnn": "ArmNNExecutionProvider",
    "acl": "ACLExecutionProvider",
    "dml": "DmlExecutionProvider",
    "directml": "DmlExecutionProvider",
    "rknpu": "RknpuExecutionProvider",
    "webnn": "WebNNExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "cann": "CANNExecutionProvider",
    "azure": "AzureExecutionProvider",
}

#: Values of an EPContext node's ``source`` that mean an EP, if not only its full name.
_CONTEXT_SOURCES: dict[str, tuple[str, ...]] = {
    QNN_EP: (QNN_EP, "QNN"),
    LLVM_EP: (LLVM_EP, "llvm"),
}
#: EPs that compare a ``source`` without case.
_FOLDS_SOURCES = frozenset({QNN_EP})

_PRIORITIES = {name: position for position, name in enumerate(KNOWN_EPS)}
_SUFFIX = "executionprovider"


def _squeezed(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "").replace(" ", "")


_FULL_NAMES = {
    **{_squeezed(name): name for name in KNOWN_EPS},
    **{_squeezed(name).removesuffix(_SUFFIX): name for name in KNOWN_EPS},
    **EP_ALIASES,
    _squeezed(LLVM_EP): LLVM_EP,
    "llvm": LLVM_EP,
}


_REMOVED_NAMES = frozenset({_squeezed(REMOVED_EP), "prepack"})

_FULL_NAME = re.compile(r"\b[A-Za-z]+ExecutionProvider\b")
#: First alias of each full name.
_SHORT_NAMES = {
    name: alias for alias, name in reversed(_FULL_NAMES.items()) if not alias.endswith(_SUFFIX)
}


def resolve_ep_name(text: str) -> str:
    """Return the full name for an alias or a full name in any case.

    Any other text is returned unchanged.

    >>> [resolve_ep_name(text) for text in ("openvino", "cpuexecutionprovider", "MyEP")]
    ['OpenVINOExecutionProvider', 'CPUExecutionProvider', 'MyEP']
    """
    if text in _PRIORITIES:
        return text
    return _FULL_NAMES.get(_squeezed(text), text)


def short_ep_names(text: str) -> str:
    """Return ``text`` with the alias of each execution provider in place of its full name.

    >>> short_ep_names("OpenVINOExecutionProvider (openvino), AcmeExecutionProvider")
    'openvino (openvino), AcmeExecutionProvider'
    """
    return _FULL_NAME.sub(lambda match: _SHORT_NAMES.get(match[0], match[0]), text)


def stated_ep(text: str | None) -> str | None:
    """Return the full name of the execution provider that a package states, or None."""
    return None if text is None else resolve_ep_name(text)


def context_sources_of(ep_name: str) -> tuple[str, ...]:
    """Return the values of an EPContext node's ``source`` that mean the EP.

    The first is the one that it writes.

    >>> context_sources_of("QNNExecutionProvider"), context_sources_of("OpenVINOExecutionProvider")
    (('QNNExecutionProvider', 'QNN'), ('OpenVINOExecutionProvider',))
    """
    return _CONTEXT_SOURCES.get(ep_name, (ep_name,))


def is_context_source_of(ep_name: str, source: str) -> bool:
    """Return True if an EPContext node with that ``source`` is the EP's; only QNN ignores case.

    >>> is_context_source_of(QNN_EP, "qnn"), is_context_source_of(OPENVINO_EP, "OpenVINO")
    (True, False)
    """
    sources = context_sources_of(ep_name)
    return source in sources or (
        ep_name in _FOLDS_SOURCES
        and source.lower() in {known_source.lower() for known_source in sources}
    )


def ep_of_context_source(source: str) -> str:
    """Return the full name of the EP whose contexts have that ``source``, or the text itself."""
    return next(
        (ep_name for ep_name in _CONTEXT_SOURCES if is_context_source_of(ep_name, source)), source
    )


def is_known_ep(name: str) -> bool:
    """Return True if a release of ONNX Runtime has used the full name; False for plug-ins."""
    return name in _PRIORITIES


def ep_named(text: str, named: Collection[str]) -> str:
    """Return the full name of an execution provider.

    Args:
        text: Full name or alias.
        named: Names on this machine or in the package, besides those of ONNX Runtime; see also
            :func:`~ortpkg.runtime.providers.ep_registry.ep_known_here`.

    Raises:
        UsageError: The name is unknown, so it is a typo, or the EP is no longer part of ortpkg.
    """
    name = resolve_ep_name(text)
    named = [other for other in sorted(named) if not removed_ep_text(other)]
    if is_known_ep(name) or name in named:
        return name
    known_names = (*KNOWN_EPS, *named)
    raise UsageError(unknown_ep_message(text, known_names, suggest_ep_name(text, tuple(named))))


def removed_ep_text(text: str) -> str:
    """Return what to do about an EP that ortpkg no longer has, as a sentence; "" for other EPs.

    Args:
        text: Full name or alias of an EP, or ``source`` of an EPContext node.
    """
    if _squeezed(text) not in _REMOVED_NAMES:
        return ""
    return (
        f"{REMOVED_EP} is no longer part of ortpkg: compile the plain model again with --ep llvm,"
        " or select another variant"
    )


def unknown_ep_message(
    text: str, known_names: Collection[str], suggestion: str | None, *, where: str = ""
) -> str:
    """Return the message that no execution provider has that name, with a suggestion."""
    if removed := removed_ep_text(text):
        return removed
    hint = f"; did you mean {suggestion!r}?" if suggestion else ""
    names = ", ".join(dict.fromkeys(map(short_ep_names, known_names)))
    return f"there is no execution provider {quoted(text)}{where}{hint} (known are: {names})"


def ep_priority(name: str) -> int:
    """Return ONNX Runtime's default priority, 0 best.

    A provider that is not on its list (a plug-in) comes before Azure and CPU.
    """
    return _PRIORITIES.get(name, _PRIORITIES["AzureExecutionProvider"] - 1)


@functools.lru_cache(maxsize=128)  # all variants of a package may have the same wrong name
def suggest_ep_name(text: str, known_names: tuple[str, ...] = ()) -> str | None:
    """Return the full name that ``text`` was probably meant to be, or None.

    ``known_names`` adds names to ONNX Runtime's list, e.g. those of installed plug-ins.
    """
    names = {**_FULL_NAMES, **{_squeezed(name): name for name in known_names}}
    squeezed = _squeezed(text)
    short = squeezed.removesuffix(_SUFFIX)
    near = (
        closest(squeezed, names, cutoff=0.8)
        or closest(short, names, cutoff=0.8)
        or _swapped_letters(short, names)
    )
    return names[near] if near and names[near] != text else None


def _swapped_letters(text: str, names: Iterable[str]) -> str | None:
    """Return the name that has the letters of ``text`` in another order; None for none."""
    letters = sorted(text)
    return next((name for name in names if len(text) > 2 and sorted(name) == letters), None)


def is_named(ep_name: str, text: str) -> bool:
    """Return True if a text has the name of an EP, and not only one that contains it.

    >>> is_named("ggml", "ggml (libx.so) failed"), is_named("ggml", "onnxruntime-ggml 1 failed")
    (True, False)
    """
    return re.search(rf"(?<![\w.+-]){re.escape(ep_name)}(?![\w+-]|\.\w)", text) is not None
