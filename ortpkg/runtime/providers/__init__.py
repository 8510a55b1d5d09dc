"""Execution providers: for each a light factory and a heavy provider.

Authors of plug-ins implement ``ep_factory`` and ``execution_provider``. The folder ``ep_discovery``
finds libraries of plug-in EPs.

Other folders may import: ``absent_devices``, ``allocator``, ``bridged_execution_provider``,
``compatibility_info``, ``compiled_partition``, ``compiling_provider``, ``cpu_execution_provider``,
``device_memories``, ``ep_discovery.ep_libraries``, ``ep_discovery.library_refusals``,
``ep_factory``, ``ep_library_target``, ``ep_registry``, ``execution_provider``, ``foreign_code``,
``foreign_contexts``, ``installed_distribution``, ``isolated_model``, ``library_traits``,
``llvm.llvm_compiler``, ``machine_offer``, ``missing_libraries``, ``native_execution_provider``,
``native_group``, ``native_model``, ``node_indices``, ``node_work``, ``nvidia_libraries``,
``onnxruntime_args``, ``onnxruntime_compiler``, ``onnxruntime_factory``, ``openvino_factory``,
``openvino_requirements``, ``operator_support``, ``partition_body``, ``partition_cache``,
``plugin_probe``, ``plugins``, ``provider_trials``, ``session_settings``, ``user_ep_libraries``.
"""
