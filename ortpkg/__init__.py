"""Package manager and variant selector for ONNX model packages, with an embedded execution engine.

Public names load on first use, so that ``import ortpkg`` loads neither numpy nor onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.foundations.public_names import public_names, public_object
from ortpkg.foundations.version import __version__ as __version__

#: Attributes that onnxruntime's module has, too.
__author__ = "ortpkg"
package_name = "ortpkg"
cuda_version = ""

if TYPE_CHECKING:
    from ortpkg import capi as capi
    from ortpkg import machine
    from ortpkg.foundations import errors as errors
    from ortpkg.api.model_package import (
        ComponentModel as ComponentModel,
        ModelPackage as ModelPackage,
    )
    from ortpkg.api.model_variant import ModelVariant as ModelVariant
    from ortpkg.api.packing import pack as pack, unpack as unpack
    from ortpkg.api.registries import install as install, pull as pull, push as push
    from ortpkg.api.verify import record_digests as record_digests, verify as verify
    from ortpkg.authoring.convert import convert as convert
    from ortpkg.authoring.create import (
        add_variant as add_variant,
        create as create,
        init_package as init_package,
        remove_variant as remove_variant,
    )
    from ortpkg.authoring.sharing.dedup import DedupReport as DedupReport, dedup as dedup
    from ortpkg.authoring.diff import PackageDiff as PackageDiff, diff as diff
    from ortpkg.authoring.edit import PackageEdits as PackageEdits, edit as edit
    from ortpkg.authoring.merge import merge as merge
    from ortpkg.authoring.migration import migrate_check as migrate_check
    from ortpkg.authoring.new_variant import NewVariant as NewVariant
    from ortpkg.authoring.package_checks import validate as validate
    from ortpkg.authoring.slim import slim as slim
    from ortpkg.api.doctor.diagnosis import doctor as doctor
    from ortpkg.runtime.engine.transformers import (
        GraphTransformer as GraphTransformer,
        RewriteRule as RewriteRule,
        TransformContext as TransformContext,
        TransformLevel as TransformLevel,
    )
    from ortpkg.runtime.ep_context.ep_context_data import (
        OrtEpContextData as OrtEpContextData,
        OrtEpContextDataBuffer as OrtEpContextDataBuffer,
    )
    from ortpkg.graph.custom_op import (
        CustomOp as CustomOp,
        custom_op as custom_op,
    )
    from ortpkg.graph.custom_op_registry import (
        register_custom_ops as register_custom_ops,
        unregister_custom_ops as unregister_custom_ops,
    )
    from ortpkg.runtime.kernels.runnable_operators import has_kernel as has_kernel
    from ortpkg.report.report_wishes import (
        DrawnGraphs as DrawnGraphs,
        ReportWishes as ReportWishes,
    )
    from ortpkg.api.samples.sample_authoring import (
        SampleArrays as SampleArrays,
        add_samples as add_samples,
        record_samples as record_samples,
    )
    from ortpkg.runtime.providers.machine_offer import (
        MachineOffer as MachineOffer,
        this_machine as this_machine,
    )
    from ortpkg.runtime.session.environment import (
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
    from ortpkg.runtime.session.inference_session import InferenceSession as InferenceSession
    from ortpkg.runtime.session.initializer_places import (
        OrtExternalInitializerInfo as OrtExternalInitializerInfo,
    )
    from ortpkg.runtime.session.io_binding import IOBinding as IOBinding
    from ortpkg.runtime.session.lora_adapter import (
        AdapterFormat as AdapterFormat,
        LoraAdapter as LoraAdapter,
    )
    from ortpkg.runtime.session.values.memory_info import (
        OrtArenaCfg as OrtArenaCfg,
        OrtMemoryInfo as OrtMemoryInfo,
    )
    from ortpkg.runtime.session.model_compiler import ModelCompiler as ModelCompiler
    from ortpkg.runtime.session.node_args import ModelMetadata as ModelMetadata, NodeArg as NodeArg
    from ortpkg.runtime.session.values.onnxruntime_enums import (
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
    from ortpkg.runtime.session.onnxruntime_surface import (
        OrtEpAssignedNode as OrtEpAssignedNode,
        OrtEpAssignedSubgraph as OrtEpAssignedSubgraph,
    )
    from ortpkg.runtime.session.options import (
        ExecutionMode as ExecutionMode,
        GraphOptimizationLevel as GraphOptimizationLevel,
        RunOptions as RunOptions,
        SessionOptions as SessionOptions,
    )
    from ortpkg.runtime.session.values.ort_device import OrtDevice as OrtDevice
    from ortpkg.runtime.session.values.ort_ep_device import (
        OrtEpDevice as OrtEpDevice,
        OrtHardwareDevice as OrtHardwareDevice,
    )
    from ortpkg.runtime.session.values.ort_value import (
        OrtValue as OrtValue,
        copy_tensors as copy_tensors,
    )
    from ortpkg.runtime.session.values.ort_value_vector import OrtValueVector as OrtValueVector
    from ortpkg.runtime.session.values.sparse_tensor import SparseTensor as SparseTensor
    from ortpkg.foundations.storage.rehearsal import rehearse as rehearse

    devices = machine

_PUBLIC = sorted(["__author__", "__version__", "cuda_version", "package_name", *public_names()])
if not TYPE_CHECKING:  # type checkers use the imports below
    __all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    value = public_object(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return _PUBLIC
