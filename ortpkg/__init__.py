"""Package manager and variant selector for ONNX model packages, with an embedded execution engine.

Public names load on first use, so that ``import ortpkg`` loads neither numpy nor onnx.
"""

from __future__ import annotations

from ortpkg.version import __version__

#: As onnxruntime's module says it of itself.
__author__ = "ortpkg"
package_name = "ortpkg"
cuda_version = ""

# as type checkers know it; typing itself takes 40 ms, in which Ctrl-C would be a traceback
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ortpkg import capi, devices, errors
    from ortpkg.api.model_package import ComponentModel, ModelPackage
    from ortpkg.api.model_variant import ModelVariant
    from ortpkg.api.packing import pack, unpack
    from ortpkg.api.verify import record_digests, verify
    from ortpkg.authoring.convert import convert
    from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
    from ortpkg.authoring.dedup import DedupReport, dedup
    from ortpkg.authoring.diff import PackageDiff, diff
    from ortpkg.authoring.edit import PackageEdits, edit
    from ortpkg.authoring.merge import merge
    from ortpkg.authoring.migration import migrate_check
    from ortpkg.authoring.new_variant import NewVariant
    from ortpkg.authoring.package_checks import validate
    from ortpkg.authoring.slim import slim
    from ortpkg.doctor.diagnosis import doctor
    from ortpkg.engine.transformers import (
        GraphTransformer,
        RewriteRule,
        TransformContext,
        TransformLevel,
    )
    from ortpkg.ep_context.ep_context_data import OrtEpContextData, OrtEpContextDataBuffer
    from ortpkg.kernels.custom_ops import (
        CustomOp,
        custom_op,
        register_custom_ops,
        unregister_custom_ops,
    )
    from ortpkg.kernels.runnable_operators import has_kernel
    from ortpkg.samples.sample_authoring import SampleArrays, add_samples, record_samples
    from ortpkg.session.environment import (
        create_and_register_allocator,
        create_and_register_allocator_v2,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_build_info,
        get_compatibility_info_from_model,
        get_compatibility_info_from_model_bytes,
        get_device,
        get_ep_devices,
        get_hardware_device_ep_incompatibility_details,
        get_hardware_devices,
        get_model_compatibility_for_ep_devices,
        get_version_string,
        has_collective_ops,
        preload_dlls,
        print_debug_info,
        register_execution_provider_library,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_global_thread_pool_sizes,
        set_seed,
        unregister_execution_provider_library,
    )
    from ortpkg.session.inference_session import InferenceSession
    from ortpkg.session.initializer_places import OrtExternalInitializerInfo
    from ortpkg.session.io_binding import IOBinding
    from ortpkg.session.lora_adapter import AdapterFormat, LoraAdapter
    from ortpkg.session.memory_info import OrtArenaCfg, OrtMemoryInfo
    from ortpkg.session.model_compiler import ModelCompiler
    from ortpkg.session.node_args import ModelMetadata, NodeArg
    from ortpkg.session.onnxruntime_enums import (
        ExecutionOrder,
        OrtAllocatorType,
        OrtCompileApiFlags,
        OrtCompiledModelCompatibility,
        OrtDeviceEpIncompatibilityReason,
        OrtDeviceMemoryType,
        OrtDeviceVendorId,
        OrtExecutionProviderDevicePolicy,
        OrtHardwareDeviceType,
        OrtMemoryInfoDeviceType,
        OrtMemType,
        OrtSparseFormat,
    )
    from ortpkg.session.onnxruntime_surface import OrtEpAssignedNode, OrtEpAssignedSubgraph
    from ortpkg.session.options import (
        ExecutionMode,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
    )
    from ortpkg.session.ort_device import OrtDevice
    from ortpkg.session.ort_ep_device import OrtEpDevice, OrtHardwareDevice
    from ortpkg.session.ort_value import OrtValue, copy_tensors
    from ortpkg.session.ort_value_vector import OrtValueVector
    from ortpkg.session.sparse_tensor import SparseTensor
    from ortpkg.storage.rehearsal import rehearse

#: Public name → the module that has it.
_LAZY: dict[str, str] = {
    "AdapterFormat": "ortpkg.session.lora_adapter",
    "ComponentModel": "ortpkg.api.model_package",
    "CustomOp": "ortpkg.kernels.custom_ops",
    "DedupReport": "ortpkg.authoring.dedup",
    "ExecutionMode": "ortpkg.session.options",
    "ExecutionOrder": "ortpkg.session.onnxruntime_enums",
    "GraphOptimizationLevel": "ortpkg.session.options",
    "GraphTransformer": "ortpkg.engine.transformers",
    "IOBinding": "ortpkg.session.io_binding",
    "InferenceSession": "ortpkg.session.inference_session",
    "LoraAdapter": "ortpkg.session.lora_adapter",
    "ModelCompiler": "ortpkg.session.model_compiler",
    "ModelMetadata": "ortpkg.session.node_args",
    "ModelPackage": "ortpkg.api.model_package",
    "ModelVariant": "ortpkg.api.model_variant",
    "NewVariant": "ortpkg.authoring.new_variant",
    "NodeArg": "ortpkg.session.node_args",
    "OrtAllocatorType": "ortpkg.session.onnxruntime_enums",
    "OrtArenaCfg": "ortpkg.session.memory_info",
    "OrtCompileApiFlags": "ortpkg.session.onnxruntime_enums",
    "OrtCompiledModelCompatibility": "ortpkg.session.onnxruntime_enums",
    "OrtDevice": "ortpkg.session.ort_device",
    "OrtDeviceEpIncompatibilityReason": "ortpkg.session.onnxruntime_enums",
    "OrtDeviceMemoryType": "ortpkg.session.onnxruntime_enums",
    "OrtDeviceVendorId": "ortpkg.session.onnxruntime_enums",
    "OrtEpAssignedNode": "ortpkg.session.onnxruntime_surface",
    "OrtEpAssignedSubgraph": "ortpkg.session.onnxruntime_surface",
    "OrtEpContextData": "ortpkg.ep_context.ep_context_data",
    "OrtEpContextDataBuffer": "ortpkg.ep_context.ep_context_data",
    "OrtEpDevice": "ortpkg.session.ort_ep_device",
    "OrtExecutionProviderDevicePolicy": "ortpkg.session.onnxruntime_enums",
    "OrtExternalInitializerInfo": "ortpkg.session.initializer_places",
    "OrtHardwareDevice": "ortpkg.session.ort_ep_device",
    "OrtHardwareDeviceType": "ortpkg.session.onnxruntime_enums",
    "OrtMemType": "ortpkg.session.onnxruntime_enums",
    "OrtMemoryInfo": "ortpkg.session.memory_info",
    "OrtMemoryInfoDeviceType": "ortpkg.session.onnxruntime_enums",
    "OrtSparseFormat": "ortpkg.session.onnxruntime_enums",
    "OrtValue": "ortpkg.session.ort_value",
    "OrtValueVector": "ortpkg.session.ort_value_vector",
    "PackageDiff": "ortpkg.authoring.diff",
    "PackageEdits": "ortpkg.authoring.edit",
    "RewriteRule": "ortpkg.engine.transformers",
    "RunOptions": "ortpkg.session.options",
    "SampleArrays": "ortpkg.samples.sample_authoring",
    "SessionOptions": "ortpkg.session.options",
    "SparseTensor": "ortpkg.session.sparse_tensor",
    "TransformContext": "ortpkg.engine.transformers",
    "TransformLevel": "ortpkg.engine.transformers",
    "add_samples": "ortpkg.samples.sample_authoring",
    "add_variant": "ortpkg.authoring.create",
    "convert": "ortpkg.authoring.convert",
    "copy_tensors": "ortpkg.session.ort_value",
    "create": "ortpkg.authoring.create",
    "create_and_register_allocator": "ortpkg.session.environment",
    "create_and_register_allocator_v2": "ortpkg.session.environment",
    "custom_op": "ortpkg.kernels.custom_ops",
    "dedup": "ortpkg.authoring.dedup",
    "diff": "ortpkg.authoring.diff",
    "disable_telemetry_events": "ortpkg.session.environment",
    "doctor": "ortpkg.doctor.diagnosis",
    "edit": "ortpkg.authoring.edit",
    "enable_telemetry_events": "ortpkg.session.environment",
    "get_all_providers": "ortpkg.session.environment",
    "get_available_providers": "ortpkg.session.environment",
    "get_build_info": "ortpkg.session.environment",
    "get_compatibility_info_from_model": "ortpkg.session.environment",
    "get_compatibility_info_from_model_bytes": "ortpkg.session.environment",
    "get_device": "ortpkg.session.environment",
    "get_ep_devices": "ortpkg.session.environment",
    "get_hardware_device_ep_incompatibility_details": "ortpkg.session.environment",
    "get_hardware_devices": "ortpkg.session.environment",
    "get_model_compatibility_for_ep_devices": "ortpkg.session.environment",
    "get_version_string": "ortpkg.session.environment",
    "has_collective_ops": "ortpkg.session.environment",
    "has_kernel": "ortpkg.kernels.runnable_operators",
    "init_package": "ortpkg.authoring.create",
    "merge": "ortpkg.authoring.merge",
    "migrate_check": "ortpkg.authoring.migration",
    "pack": "ortpkg.api.packing",
    "preload_dlls": "ortpkg.session.environment",
    "print_debug_info": "ortpkg.session.environment",
    "record_digests": "ortpkg.api.verify",
    "record_samples": "ortpkg.samples.sample_authoring",
    "register_custom_ops": "ortpkg.kernels.custom_ops",
    "register_execution_provider_library": "ortpkg.session.environment",
    "rehearse": "ortpkg.storage.rehearsal",
    "remove_variant": "ortpkg.authoring.create",
    "set_default_logger_severity": "ortpkg.session.environment",
    "set_default_logger_verbosity": "ortpkg.session.environment",
    "set_global_thread_pool_sizes": "ortpkg.session.environment",
    "set_seed": "ortpkg.session.environment",
    "slim": "ortpkg.authoring.slim",
    "unpack": "ortpkg.api.packing",
    "unregister_custom_ops": "ortpkg.kernels.custom_ops",
    "unregister_execution_provider_library": "ortpkg.session.environment",
    "validate": "ortpkg.authoring.package_checks",
    "verify": "ortpkg.api.verify",
}

__all__ = [
    "AdapterFormat",
    "ComponentModel",
    "CustomOp",
    "DedupReport",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "GraphTransformer",
    "IOBinding",
    "InferenceSession",
    "LoraAdapter",
    "ModelCompiler",
    "ModelMetadata",
    "ModelPackage",
    "ModelVariant",
    "NewVariant",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtCompiledModelCompatibility",
    "OrtDevice",
    "OrtDeviceEpIncompatibilityReason",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpAssignedNode",
    "OrtEpAssignedSubgraph",
    "OrtEpContextData",
    "OrtEpContextDataBuffer",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtExternalInitializerInfo",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtValue",
    "OrtValueVector",
    "PackageDiff",
    "PackageEdits",
    "RewriteRule",
    "RunOptions",
    "SampleArrays",
    "SessionOptions",
    "SparseTensor",
    "TransformContext",
    "TransformLevel",
    "__author__",
    "__version__",
    "add_samples",
    "add_variant",
    "capi",
    "convert",
    "copy_tensors",
    "create",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "cuda_version",
    "custom_op",
    "dedup",
    "devices",
    "diff",
    "disable_telemetry_events",
    "doctor",
    "edit",
    "enable_telemetry_events",
    "errors",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_compatibility_info_from_model",
    "get_compatibility_info_from_model_bytes",
    "get_device",
    "get_ep_devices",
    "get_hardware_device_ep_incompatibility_details",
    "get_hardware_devices",
    "get_model_compatibility_for_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "has_kernel",
    "init_package",
    "merge",
    "migrate_check",
    "pack",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "record_digests",
    "record_samples",
    "register_custom_ops",
    "register_execution_provider_library",
    "rehearse",
    "remove_variant",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "slim",
    "unpack",
    "unregister_custom_ops",
    "unregister_execution_provider_library",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    import importlib  # 7 ms, which the command line spends when it hears Ctrl-C already

    if name in ("capi", "devices", "errors"):
        return importlib.import_module(f"ortpkg.{name}")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ortpkg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
