"""Public names of ortpkg, with their modules, which are loaded on first use."""

from __future__ import annotations

import importlib
from typing import Any

#: Modules with a public name of their own, by it.
_MODULES = {
    "capi": "ortpkg.capi",
    "devices": "ortpkg.machine",
    "errors": "ortpkg.foundations.errors",
}
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
    "ortpkg.api.doctor.diagnosis": "doctor",
    "ortpkg.runtime.engine.transformers": (
        "GraphTransformer RewriteRule TransformContext TransformLevel"
    ),
    "ortpkg.runtime.ep_context.ep_context_data": "OrtEpContextData OrtEpContextDataBuffer",
    "ortpkg.graph.custom_op": "CustomOp custom_op",
    "ortpkg.graph.custom_op_registry": "register_custom_ops unregister_custom_ops",
    "ortpkg.runtime.kernels.runnable_operators": "has_kernel",
    "ortpkg.report.report_wishes": "DrawnGraphs ReportWishes",
    "ortpkg.api.samples.sample_authoring": "SampleArrays add_samples record_samples",
    "ortpkg.runtime.providers.machine_offer": "MachineOffer this_machine",
    "ortpkg.runtime.session.environment": (
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
    "ortpkg.runtime.session.inference_session": "InferenceSession",
    "ortpkg.runtime.session.initializer_places": "OrtExternalInitializerInfo",
    "ortpkg.runtime.session.io_binding": "IOBinding",
    "ortpkg.runtime.session.lora_adapter": "AdapterFormat LoraAdapter",
    "ortpkg.runtime.session.values.memory_info": "OrtArenaCfg OrtMemoryInfo",
    "ortpkg.runtime.session.model_compiler": "ModelCompiler",
    "ortpkg.runtime.session.node_args": "ModelMetadata NodeArg",
    "ortpkg.runtime.session.values.onnxruntime_enums": (
        "ExecutionOrder OrtAllocatorType OrtCompileApiFlags OrtCompiledModelCompatibility "
        "OrtDeviceEpIncompatibilityReason OrtDeviceMemoryType OrtDeviceVendorId "
        "OrtExecutionProviderDevicePolicy OrtHardwareDeviceType OrtMemType "
        "OrtMemoryInfoDeviceType OrtSparseFormat"
    ),
    "ortpkg.runtime.session.onnxruntime_surface": "OrtEpAssignedNode OrtEpAssignedSubgraph",
    "ortpkg.runtime.session.options": (
        "ExecutionMode GraphOptimizationLevel RunOptions SessionOptions"
    ),
    "ortpkg.runtime.session.values.ort_device": "OrtDevice",
    "ortpkg.runtime.session.values.ort_ep_device": "OrtEpDevice OrtHardwareDevice",
    "ortpkg.runtime.session.values.ort_value": "OrtValue copy_tensors",
    "ortpkg.runtime.session.values.ort_value_vector": "OrtValueVector",
    "ortpkg.runtime.session.values.sparse_tensor": "SparseTensor",
    "ortpkg.foundations.storage.rehearsal": "rehearse",
}
#: Names of ``ortpkg.devices`` by module.
_NAMES_OF_DEVICES: dict[str, str] = {
    "ortpkg.machine.hardware": "DeviceType EpDevice HardwareDevice",
    "ortpkg.machine.machine": "Machine",
    "ortpkg.machine.machine_probe": "probe with_free_memory",
    "ortpkg.machine.profiles": ("BUILT_IN_PROFILES MachineProfile profile_to_json read_profile"),
}


def module_of_name(names_of_module: dict[str, str]) -> dict[str, str]:
    """Return each name's module, from each module's names between spaces."""
    return {name: module for module, names in names_of_module.items() for name in names.split()}


MODULE_OF_NAME = module_of_name(_NAMES_OF_MODULE)
MODULE_OF_DEVICES_NAME = module_of_name(_NAMES_OF_DEVICES)


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
    return public_object_of(name, MODULE_OF_NAME, "ortpkg")


def devices_object(name: str) -> Any:
    """Return the object of that name in ``ortpkg.devices``.

    Raises:
        AttributeError: There is none.
    """
    return public_object_of(name, MODULE_OF_DEVICES_NAME, "ortpkg.machine")


def public_object_of(name: str, modules: dict[str, str], package: str) -> Any:
    """Return the object of a name, whose module is loaded now.

    Args:
        name: the name, as an attribute of ``package``.
        modules: module of each name.
        package: name of the module that offers the names.

    Raises:
        AttributeError: There is none of that name.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(modules[name]), name)
