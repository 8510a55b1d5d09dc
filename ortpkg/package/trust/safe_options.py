"""Session and provider options that only tune a computation, which an untrusted package may set.

Options that are not listed may write files, load libraries or read paths, or were not reviewed yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.foundations.documents.load_config import LOAD_CONFIG, only_tunes
from ortpkg.foundations.ep_names import OPENVINO_EP

#: Session config entries (onnxruntime_session_options_config_keys.h) that only tune the
#: computation.
SAFE_SESSION_OPTIONS: frozenset[str] = frozenset(
    {
        "session.intra_op_num_threads",
        "session.inter_op_num_threads",
        "session.execution_mode",
        "session.graph_optimization_level",
        "session.enable_cpu_mem_arena",
        "session.enable_mem_pattern",
        "session.enable_mem_reuse",
        "session.use_deterministic_compute",
        "session.use_per_session_threads",
        "session.log_id",
        "session.log_severity_level",
        "session.log_verbosity_level",
        "session.set_denormal_as_zero",
        "session.disable_prepacking",
        "session.use_env_allocators",
        "session.disable_cpu_ep_fallback",
        "session.intra_op.allow_spinning",
        "session.inter_op.allow_spinning",
        "session.dynamic_block_base",
        "session.qdqisint8allowed",
        "session.disable_quant_qdq",
        "session.enable_quant_qdq_cleanup",
        "session.x64quantprecision",
        "session.kernel_dispatch_policy",
        "session.external_data_loader.threads",
        "session.external_data_loader.min_size_bytes",
        "session.external_data_loader.chunk_bytes",
        "session.external_data_loader.pinned_memory_bytes",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "ep.context_node_name_prefix",
        "ep.share_ep_contexts",
    }
)

#: Provider options that only tune the computation, by execution provider. Other EPs have none.
SAFE_PROVIDER_OPTIONS: Mapping[str, frozenset[str]] = {
    "CPUExecutionProvider": frozenset({"arena_extend_strategy"}),
    "OpenVINOExecutionProvider": frozenset(
        {
            "device_type",
            "precision",
            "num_of_threads",
            "num_streams",
            "model_priority",
            "enable_opencl_throttling",
            "enable_qdq_optimizer",
            "disable_dynamic_shapes",
            "reshape_input",
        }
    ),
    "QNNExecutionProvider": frozenset(
        {
            "backend_type",
            "htp_performance_mode",
            "htp_graph_finalization_optimization_mode",
            "htp_arch",
            "soc_model",
            "device_id",
            "enable_htp_fp16_precision",
            "enable_htp_weight_sharing",
            "offload_graph_io_quantization",
            "vtcm_mb",
            "rpc_control_latency",
            "qnn_context_priority",
        }
    ),
    "CUDAExecutionProvider": frozenset(
        {
            "device_id",
            "gpu_mem_limit",
            "arena_extend_strategy",
            "cudnn_conv_algo_search",
            "cudnn_conv_use_max_workspace",
            "do_copy_in_default_stream",
            "enable_cuda_graph",
            "use_tf32",
            "prefer_nhwc",
        }
    ),
    "TensorrtExecutionProvider": frozenset(
        {
            "device_id",
            "trt_max_workspace_size",
            "trt_fp16_enable",
            "trt_int8_enable",
            "trt_bf16_enable",
        }
    ),
    "NvTensorRTRTXExecutionProvider": frozenset(
        {"device_id", "enable_cuda_graph", "nv_max_workspace_size"}
    ),
    "DmlExecutionProvider": frozenset(
        {
            "device_id",
            "performance_preference",
            "device_filter",
            "disable_metacommands",
            "enable_dynamic_graph_fusion",
        }
    ),
    "CoreMLExecutionProvider": frozenset(
        {
            "MLComputeUnits",
            "ModelFormat",
            "RequireStaticInputShapes",
            "EnableOnSubgraphs",
            "SpecializationStrategy",
            "AllowLowPrecisionAccumulationOnGPU",
        }
    ),
    "MIGraphXExecutionProvider": frozenset(
        {"device_id", "migraphx_fp16_enable", "migraphx_bf16_enable", "migraphx_int8_enable"}
    ),
    "LLVMExecutionProvider": frozenset({"precision", "target"}),
    "XnnpackExecutionProvider": frozenset({"intra_op_num_threads"}),
    "WebGpuExecutionProvider": frozenset({"preferredLayout", "enableGraphCapture"}),
}


def unsafe_provider_options(options: Mapping[str, str], ep: str | None) -> list[str]:
    """Return the keys of options that may do more than tune a computation on ``ep``.

    ``ep`` None stands for any EP that has such an option.
    """
    allowed = (
        frozenset().union(*SAFE_PROVIDER_OPTIONS.values())
        if ep is None
        else SAFE_PROVIDER_OPTIONS.get(ep, ())
    )
    is_config_read = ep in (None, OPENVINO_EP)
    return [
        key
        for key, value in options.items()
        if key not in allowed and not (is_config_read and key == LOAD_CONFIG and only_tunes(value))
    ]
