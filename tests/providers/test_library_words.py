"""Messages of native libraries, as ortpkg passes them on."""

from __future__ import annotations

import pytest

from ortpkg.providers.native_library import words_of

#: As onnxruntime 1.31 says it where there is no driver for a GPU.
_WITHOUT_DRIVER = (
    "/onnxruntime_src/onnxruntime/core/session/plugin_ep/ep_plugin_provider_interfaces.cc:71"
    " virtual std::unique_ptr<onnxruntime::IExecutionProvider>"
    " onnxruntime::PluginExecutionProviderFactory::CreateProvider(const OrtSessionOptions&, const"
    " OrtLogger&) Error creating execution provider: [ONNXRuntimeError] : 11 : EP_FAIL :"
    " /onnxruntime_src/onnxruntime/core/providers/webgpu/webgpu_context.cc:136"
    " onnxruntime::webgpu::WebGpuContext::Initialize(const"
    " onnxruntime::webgpu::WebGpuContextConfig&)::<lambda()> adapter_result.status =="
    " wgpu::RequestAdapterStatus::Success was false. Failed to get a WebGPU adapter: No supported"
    " adapters\n\n"
)


def test_places_in_the_source_of_onnxruntime_are_left_out() -> None:
    assert words_of(RuntimeError(_WITHOUT_DRIVER)) == (
        "Error creating execution provider: Failed to get a WebGPU adapter: No supported adapters"
    )


@pytest.mark.parametrize(
    "text",
    [
        "cannot open /models/a.onnx: No such file (os error 2)",
        "/data/model.h:3 is no model",
        "Conv (node /block.0/conv) has no kernel",
        "it was false. Say so",
    ],
)
def test_what_only_looks_like_a_place_in_source_stays(text: str) -> None:
    assert words_of(RuntimeError(text)) == text


def test_places_in_the_source_of_openvino_are_left_out() -> None:
    text = "Exception from src/core.cpp:25:\nCheck 'x' failed at src/a.cpp:3:\nno such device\n"
    assert words_of(RuntimeError(text)) == "no such device"
