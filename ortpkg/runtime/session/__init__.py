"""``InferenceSession``, its options, and the stages of creating it.

Other folders may import: ``added_transformers``, ``caller_warnings``, ``compile_models``,
``default_providers``, ``environment``, ``explain_context_cache``, ``inference_session``,
``initializer_places``, ``io_binding``, ``lora_adapter``, ``lost_device``, ``memory_info``,
``memory_profile``, ``memory_timeline``, ``model_compiler``, ``named_providers``, ``node_args``,
``onnxruntime_enums``, ``onnxruntime_surface``, ``options``, ``ort_device``, ``ort_ep_device``,
``ort_value``, ``ort_value_vector``, ``partition_entries``, ``placement``, ``provider_list``,
``session_plan``, ``session_providers``, ``sparse_tensor``.
"""
