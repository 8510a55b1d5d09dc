"""The runtimes that the conformance table compares: ours, the reference, onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import onnx

from ortpkg.runtime.session.default_providers import PROVIDERS_VARIABLE
from tests.conformance.cases import Case, as_value
from tests.conformance.comparison import difference

Runtime = Callable[[onnx.ModelProto], Callable[[Sequence[Any]], list[Any]]]


def _fed_names(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[str]:
    """The graph inputs that ``inputs`` are for: all, or those without a default value."""
    initialized = {initializer.name for initializer in model.graph.initializer}
    names = [value.name for value in model.graph.input]
    free = [name for name in names if name not in initialized]
    return free if len(free) == len(inputs) else names[: len(inputs)]


def ortpkg_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """Our engine with its CPU provider alone."""
    return _session_on(model, providers=["CPUExecutionProvider"])


def machine_code_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """Machine code of what is compiled, each access checked, our engine for the rest."""
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import SessionOptions

    options = SessionOptions()
    options.add_session_config_entry("ortpkg.llvm_check", "1")
    session = InferenceSession(model.SerializeToString(), options, providers=["llvm", "cpu"])
    return lambda inputs: session.run(
        None, dict(zip(_fed_names(model, inputs), inputs, strict=True))
    )


def openvino_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """OpenVINO for what it may claim, our engine for the rest."""
    return _session_on(model, providers=["OpenVINOExecutionProvider", "CPUExecutionProvider"])


def bridge_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """The installed onnxruntime's CPU provider inside our session, our engine for the rest."""
    return _session_on(
        model, providers=["CPUExecutionProvider"], backend="onnxruntime", allow_fallback=True
    )


def default_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """What a session picks where nobody names a provider, whatever the environment names."""
    stated = os.environ.pop(PROVIDERS_VARIABLE, None)
    try:
        return _session_on(model)
    finally:
        if stated is not None:
            os.environ[PROVIDERS_VARIABLE] = stated


def _session_on(model: onnx.ModelProto, **providers: Any) -> Callable[[Sequence[Any]], list[Any]]:
    from ortpkg.runtime.session.inference_session import InferenceSession

    session = InferenceSession(model.SerializeToString(), **providers)
    return lambda inputs: session.run(
        None, dict(zip(_fed_names(model, inputs), inputs, strict=True))
    )


def reference_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """onnx.reference."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return lambda inputs: [
        as_value(value)
        for value in evaluator.run(None, dict(zip(_fed_names(model, inputs), inputs, strict=True)))
    ]


def onnxruntime_runtime(model: onnx.ModelProto) -> Callable[[Sequence[Any]], list[Any]]:
    """onnxruntime with its CPU provider alone."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: [
        as_value(value)
        for value in session.run(None, dict(zip(_fed_names(model, inputs), inputs, strict=True)))
    ]


RUNTIMES: dict[str, Runtime] = {
    "ortpkg": ortpkg_runtime,
    "machine code": machine_code_runtime,
    "OpenVINO": openvino_runtime,
    "onnxruntime's CPU": bridge_runtime,
    "default": default_runtime,
    "onnx.reference": reference_runtime,
    "onnxruntime": onnxruntime_runtime,
}


def failure(runtime: Runtime, case: Case) -> str | None:
    """Why ``case`` fails on ``runtime``, in one line; None where it passes."""
    try:
        model = case.load_model()
        run = runtime(model)
        for data_set in case.load_data_sets():
            problem = difference(
                run(data_set.inputs), data_set.outputs, rtol=case.rtol, atol=case.atol
            )
            if problem:
                return problem
    except Exception as error:  # noqa: BLE001  # whatever a runtime raises is why the case fails
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None
