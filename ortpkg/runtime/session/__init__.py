"""``InferenceSession``, its options, and the stages of creating it.

Other folders may import: ``added_transformers``, ``caller_warnings``, ``compile_models``,
``default_providers``, ``environment``, ``explain_context_cache``, ``inference_session``,
``initializer_places``, ``io_binding``, ``lora_adapter``, ``lost_device``, ``memory_profile``,
``memory_timeline``, ``model_compiler``, ``named_providers``, ``node_args``,
``onnxruntime_surface``, ``options``, ``partition_entries``, ``placement``, ``provider_list``,
``session_plan``, ``session_providers``, ``values.memory_info``, ``values.onnxruntime_enums``,
``values.ort_device``, ``values.ort_ep_device``, ``values.ort_value_vector``, ``values.ort_value``,
``values.sparse_tensor``.
"""
