"""Messages of native libraries, as ortpkg passes them on."""

from __future__ import annotations

import pytest

from ortpkg.runtime.providers.library_words import quoted_words, shortened, words_of

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


#: As OpenVINO 2026 says it where Intel's compiler for NPUs is missing.
_FOLDER = "/home/somebody/a rather long folder/lib/python3.11/site-packages/onnxruntime_ep_openvino"
_COMPILER = "libopenvino_intel_npu_compiler_loader.so"
_WITHOUT_COMPILER = (
    "[ONNXRuntimeError] : 11 : EP_FAIL : Exception from src/inference/src/cpp/core.cpp:117:\n"
    "Exception from src/inference/src/dev/plugin.cpp:54:\n"
    "VCL compiler loading failed, aborting. Error: Exception from"
    " src/plugins/intel_npu/src/utils/src/vcl/vcl_api.cpp:22:\n"
    f'Cannot load library "{_FOLDER}/{_COMPILER}": {_FOLDER}/{_COMPILER}: cannot open shared object'
    " file: No such file or directory\n\n\n"
)


def test_a_long_message_names_the_file_that_is_missing_and_says_why() -> None:
    assert quoted_words(RuntimeError(_WITHOUT_COMPILER)) == (
        f'\'VCL compiler loading failed, aborting. Cannot load library "…/{_COMPILER}":'
        " cannot open shared"
        " object file: No such file or directory'"
    )


def test_of_a_message_that_is_longer_still_the_middle_goes() -> None:
    words = shortened(f"compiling failed: {'in between ' * 50}libx.so.1 is missing")
    assert len(words) == 200
    assert words.startswith("compiling failed: ")
    assert words.endswith(" libx.so.1 is missing")


@pytest.mark.parametrize(
    "text",
    [
        "C:\\Program Files\\an EP's library\\onnxruntime_acme.dll cannot be loaded",
        "/opt/my EPs ü/onnxruntime_acme.dll cannot be loaded",
    ],
)
def test_a_short_message_keeps_its_folders_and_a_long_one_the_files_name(text: str) -> None:
    assert shortened(text) == text
    assert shortened(text, 60).endswith("onnxruntime_acme.dll cannot be loaded")


def test_a_ratio_or_a_nodes_name_loses_nothing() -> None:
    text = "Conv (node 1/2) takes 3/4 of it"
    assert shortened(text, 31) == text
