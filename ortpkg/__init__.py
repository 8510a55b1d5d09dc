"""Package manager and variant selector for ONNX model packages, with an embedded execution engine.

Public names load on first use, so that ``import ortpkg`` loads neither numpy nor onnx.
"""

from __future__ import annotations

from ortpkg.version import __version__ as __version__

#: As onnxruntime's module says it of itself.
__author__ = "ortpkg"
package_name = "ortpkg"
cuda_version = ""

# as type checkers know it; typing itself takes 40 ms, in which Ctrl-C would be a traceback
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ortpkg import capi as capi
    from ortpkg import devices as devices
    from ortpkg import errors as errors
    from ortpkg.api.model_package import (
        ComponentModel as ComponentModel,
        ModelPackage as ModelPackage,
    )
    from ortpkg.api.model_variant import ModelVariant as ModelVariant
    from ortpkg.api.packing import pack as pack, unpack as unpack
    from ortpkg.api.verify import record_digests as record_digests, verify as verify
    from ortpkg.authoring.convert import convert as convert
    from ortpkg.authoring.create import (
        add_variant as add_variant,
        create as create,
        init_package as init_package,
        remove_variant as remove_variant,
    )
    from ortpkg.authoring.dedup import DedupReport as DedupReport, dedup as dedup
    from ortpkg.authoring.diff import PackageDiff as PackageDiff, diff as diff
    from ortpkg.authoring.edit import PackageEdits as PackageEdits, edit as edit
    from ortpkg.authoring.merge import merge as merge
    from ortpkg.authoring.migration import migrate_check as migrate_check
    from ortpkg.authoring.new_variant import NewVariant as NewVariant
    from ortpkg.authoring.package_checks import validate as validate
    from ortpkg.authoring.slim import slim as slim
    from ortpkg.doctor.diagnosis import doctor as doctor
    from ortpkg.engine.transformers import (
        GraphTransformer as GraphTransformer,
        RewriteRule as RewriteRule,
        TransformContext as TransformContext,
        TransformLevel as TransformLevel,
    )
    from ortpkg.ep_context.ep_context_data import (
        OrtEpContextData as OrtEpContextData,
        OrtEpContextDataBuffer as OrtEpContextDataBuffer,
    )
    from ortpkg.kernels.custom_op import (
        CustomOp as CustomOp,
        custom_op as custom_op,
    )
    from ortpkg.kernels.custom_ops import (
        register_custom_ops as register_custom_ops,
        unregister_custom_ops as unregister_custom_ops,
    )
    from ortpkg.kernels.runnable_operators import has_kernel as has_kernel
    from ortpkg.samples.sample_authoring import (
        SampleArrays as SampleArrays,
        add_samples as add_samples,
        record_samples as record_samples,
    )
    from ortpkg.session.environment import (
        create_and_register_allocator as create_and_register_allocator,
        create_and_register_allocator_v2 as create_and_register_allocator_v2,
        disable_telemetry_events as disable_telemetry_events,
        enable_telemetry_events as enable_telemetry_events,
        get_all_providers as get_all_providers,
        get_available_providers as get_available_providers,
        get_build_info as get_build_info,
        get_compatibility_info_from_model as get_compatibility_info_from_model,
        get_compatibility_info_from_model_bytes as get_compatibility_info_from_model_bytes,
        get_device as get_device,
        get_ep_devices as get_ep_devices,
        get_hardware_device_ep_incompatibility_details as get_hardware_device_ep_incompatibility_details,
        get_hardware_devices as get_hardware_devices,
        get_model_compatibility_for_ep_devices as get_model_compatibility_for_ep_devices,
        get_version_string as get_version_string,
        has_collective_ops as has_collective_ops,
        preload_dlls as preload_dlls,
        print_debug_info as print_debug_info,
        register_execution_provider_library as register_execution_provider_library,
        set_default_logger_severity as set_default_logger_severity,
        set_default_logger_verbosity as set_default_logger_verbosity,
        set_global_thread_pool_sizes as set_global_thread_pool_sizes,
        set_seed as set_seed,
        unregister_execution_provider_library as unregister_execution_provider_library,
    )
    from ortpkg.session.inference_session import InferenceSession as InferenceSession
    from ortpkg.session.initializer_places import (
        OrtExternalInitializerInfo as OrtExternalInitializerInfo,
    )
    from ortpkg.session.io_binding import IOBinding as IOBinding
    from ortpkg.session.lora_adapter import (
        AdapterFormat as AdapterFormat,
        LoraAdapter as LoraAdapter,
    )
    from ortpkg.session.memory_info import (
        OrtArenaCfg as OrtArenaCfg,
        OrtMemoryInfo as OrtMemoryInfo,
    )
    from ortpkg.session.model_compiler import ModelCompiler as ModelCompiler
    from ortpkg.session.node_args import ModelMetadata as ModelMetadata, NodeArg as NodeArg
    from ortpkg.session.onnxruntime_enums import (
        ExecutionOrder as ExecutionOrder,
        OrtAllocatorType as OrtAllocatorType,
        OrtCompileApiFlags as OrtCompileApiFlags,
        OrtCompiledModelCompatibility as OrtCompiledModelCompatibility,
        OrtDeviceEpIncompatibilityReason as OrtDeviceEpIncompatibilityReason,
        OrtDeviceMemoryType as OrtDeviceMemoryType,
        OrtDeviceVendorId as OrtDeviceVendorId,
        OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy,
        OrtHardwareDeviceType as OrtHardwareDeviceType,
        OrtMemType as OrtMemType,
        OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType,
        OrtSparseFormat as OrtSparseFormat,
    )
    from ortpkg.session.onnxruntime_surface import (
        OrtEpAssignedNode as OrtEpAssignedNode,
        OrtEpAssignedSubgraph as OrtEpAssignedSubgraph,
    )
    from ortpkg.session.options import (
        ExecutionMode as ExecutionMode,
        GraphOptimizationLevel as GraphOptimizationLevel,
        RunOptions as RunOptions,
        SessionOptions as SessionOptions,
    )
    from ortpkg.session.ort_device import OrtDevice as OrtDevice
    from ortpkg.session.ort_ep_device import (
        OrtEpDevice as OrtEpDevice,
        OrtHardwareDevice as OrtHardwareDevice,
    )
    from ortpkg.session.ort_value import OrtValue as OrtValue, copy_tensors as copy_tensors
    from ortpkg.session.ort_value_vector import OrtValueVector as OrtValueVector
    from ortpkg.session.sparse_tensor import SparseTensor as SparseTensor
    from ortpkg.storage.rehearsal import rehearse as rehearse

_MODULES = ("capi", "devices", "errors")
#: Module → the public names that it has; type checkers read the same above.
_NAMES_OF_MODULE: dict[str, str] = {
    "ortpkg.api.model_package": "ComponentModel ModelPackage",
    "ortpkg.api.model_variant": "ModelVariant",
    "ortpkg.api.packing": "pack unpack",
    "ortpkg.api.verify": "record_digests verify",
    "ortpkg.authoring.convert": "convert",
    "ortpkg.authoring.create": "add_variant create init_package remove_variant",
    "ortpkg.authoring.dedup": "DedupReport dedup",
    "ortpkg.authoring.diff": "PackageDiff diff",
    "ortpkg.authoring.edit": "PackageEdits edit",
    "ortpkg.authoring.merge": "merge",
    "ortpkg.authoring.migration": "migrate_check",
    "ortpkg.authoring.new_variant": "NewVariant",
    "ortpkg.authoring.package_checks": "validate",
    "ortpkg.authoring.slim": "slim",
    "ortpkg.doctor.diagnosis": "doctor",
    "ortpkg.engine.transformers": ("GraphTransformer RewriteRule TransformContext TransformLevel"),
    "ortpkg.ep_context.ep_context_data": "OrtEpContextData OrtEpContextDataBuffer",
    "ortpkg.kernels.custom_op": "CustomOp custom_op",
    "ortpkg.kernels.custom_ops": "register_custom_ops unregister_custom_ops",
    "ortpkg.kernels.runnable_operators": "has_kernel",
    "ortpkg.samples.sample_authoring": "SampleArrays add_samples record_samples",
    "ortpkg.session.environment": (
        "create_and_register_allocator create_and_register_allocator_v2 "
        "disable_telemetry_events enable_telemetry_events get_all_providers "
        "get_available_providers get_build_info get_compatibility_info_from_model "
        "get_compatibility_info_from_model_bytes get_device get_ep_devices "
        "get_hardware_device_ep_incompatibility_details get_hardware_devices "
        "get_model_compatibility_for_ep_devices get_version_string has_collective_ops "
        "preload_dlls print_debug_info register_execution_provider_library "
        "set_default_logger_severity set_default_logger_verbosity "
        "set_global_thread_pool_sizes set_seed unregister_execution_provider_library"
    ),
    "ortpkg.session.inference_session": "InferenceSession",
    "ortpkg.session.initializer_places": "OrtExternalInitializerInfo",
    "ortpkg.session.io_binding": "IOBinding",
    "ortpkg.session.lora_adapter": "AdapterFormat LoraAdapter",
    "ortpkg.session.memory_info": "OrtArenaCfg OrtMemoryInfo",
    "ortpkg.session.model_compiler": "ModelCompiler",
    "ortpkg.session.node_args": "ModelMetadata NodeArg",
    "ortpkg.session.onnxruntime_enums": (
        "ExecutionOrder OrtAllocatorType OrtCompileApiFlags OrtCompiledModelCompatibility "
        "OrtDeviceEpIncompatibilityReason OrtDeviceMemoryType OrtDeviceVendorId "
        "OrtExecutionProviderDevicePolicy OrtHardwareDeviceType OrtMemType "
        "OrtMemoryInfoDeviceType OrtSparseFormat"
    ),
    "ortpkg.session.onnxruntime_surface": "OrtEpAssignedNode OrtEpAssignedSubgraph",
    "ortpkg.session.options": "ExecutionMode GraphOptimizationLevel RunOptions SessionOptions",
    "ortpkg.session.ort_device": "OrtDevice",
    "ortpkg.session.ort_ep_device": "OrtEpDevice OrtHardwareDevice",
    "ortpkg.session.ort_value": "OrtValue copy_tensors",
    "ortpkg.session.ort_value_vector": "OrtValueVector",
    "ortpkg.session.sparse_tensor": "SparseTensor",
    "ortpkg.storage.rehearsal": "rehearse",
}
_MODULE_OF_NAME = {
    name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()
}
_PUBLIC = sorted(
    ["__author__", "__version__", "cuda_version", "package_name", *_MODULES, *_MODULE_OF_NAME]
)
if not TYPE_CHECKING:  # checkers go by what is imported for them
    __all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    import importlib  # 7 ms, which the command line spends when it hears Ctrl-C already

    if name in _MODULES:
        return importlib.import_module(f"ortpkg.{name}")
    if name in _MODULE_OF_NAME:
        value = getattr(importlib.import_module(_MODULE_OF_NAME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ortpkg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _PUBLIC
