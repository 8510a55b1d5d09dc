"""Public names of ortpkg, with their modules, which are loaded on first use."""

from __future__ import annotations

import importlib
from typing import Any

#: Modules with a public name of their own, by it.
_MODULES = {"capi": "ortpkg.capi", "devices": "ortpkg.devices", "errors": "ortpkg.errors"}
#: Public names by module; type checkers read the same in ``ortpkg/__init__.py``.
_NAMES_OF_MODULE: dict[str, str] = {
    "ortpkg.api.model_package": "ComponentModel ModelPackage",
    "ortpkg.api.model_variant": "ModelVariant",
    "ortpkg.api.packing": "pack unpack",
    "ortpkg.api.registries": "install pull push",
    "ortpkg.api.verify": "record_digests verify",
    "ortpkg.authoring.convert": "convert",
    "ortpkg.authoring.create": "add_variant create init_package remove_variant",
    "ortpkg.authoring.diff": "PackageDiff diff",
    "ortpkg.authoring.edit": "PackageEdits edit",
    "ortpkg.authoring.merge": "merge",
    "ortpkg.authoring.migration": "migrate_check",
    "ortpkg.authoring.new_variant": "NewVariant",
    "ortpkg.authoring.package_checks": "validate",
    "ortpkg.authoring.sharing.dedup": "DedupReport dedup",
    "ortpkg.authoring.slim": "slim",
    "ortpkg.doctor.diagnosis": "doctor",
    "ortpkg.engine.transformers": ("GraphTransformer RewriteRule TransformContext TransformLevel"),
    "ortpkg.ep_context.ep_context_data": "OrtEpContextData OrtEpContextDataBuffer",
    "ortpkg.kernels.custom_op": "CustomOp custom_op",
    "ortpkg.kernels.custom_ops": "register_custom_ops unregister_custom_ops",
    "ortpkg.kernels.runnable_operators": "has_kernel",
    "ortpkg.report.report_wishes": "DrawnGraphs ReportWishes",
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
    "ortpkg.session.options": ("ExecutionMode GraphOptimizationLevel RunOptions SessionOptions"),
    "ortpkg.session.ort_device": "OrtDevice",
    "ortpkg.session.ort_ep_device": "OrtEpDevice OrtHardwareDevice",
    "ortpkg.session.ort_value": "OrtValue copy_tensors",
    "ortpkg.session.ort_value_vector": "OrtValueVector",
    "ortpkg.session.sparse_tensor": "SparseTensor",
    "ortpkg.storage.rehearsal": "rehearse",
}
#: Names of ``ortpkg.devices`` by module.
_NAMES_OF_DEVICES: dict[str, str] = {
    "ortpkg.devices.hardware": "DeviceType EpDevice HardwareDevice",
    "ortpkg.devices.machine": "Machine",
    "ortpkg.devices.machine_probe": "probe with_free_memory",
    "ortpkg.devices.profiles": ("BUILT_IN_PROFILES MachineProfile profile_to_json read_profile"),
}


def _module_of_name(names_of_module: dict[str, str]) -> dict[str, str]:
    return {name: module for module, names in names_of_module.items() for name in names.split()}


MODULE_OF_NAME = _module_of_name(_NAMES_OF_MODULE)
MODULE_OF_DEVICES_NAME = _module_of_name(_NAMES_OF_DEVICES)


def public_names() -> list[str]:
    """Return every name that is loaded on first use."""
    return [*_MODULES, *MODULE_OF_NAME]


def public_object(name: str) -> Any:
    """Return the public object of that name.

    Raises:
        AttributeError: There is none.
    """
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    return _loaded(name, MODULE_OF_NAME, "ortpkg")


def devices_object(name: str) -> Any:
    """Return the object of that name in ``ortpkg.devices``.

    Raises:
        AttributeError: There is none.
    """
    return _loaded(name, MODULE_OF_DEVICES_NAME, "ortpkg.devices")


def _loaded(name: str, module_of_name: dict[str, str], package: str) -> Any:
    if name not in module_of_name:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module_of_name[name]), name)
