"""The in-memory graph of a model, and ONNX files as its source and its result.

Inputs and outputs of a model can be read without its weights. Kernels, compiler and execution
providers see a model only as this graph; custom operators are declared here.

Room: ``shapes``, which infers types and sizes.

Only this folder may import: ``graph_checks``, ``model_functions``, ``name_scope``, ``name_stock``,
``onnx_attributes``, ``operator_call``, ``quantization_word``, ``use_lists``, ``weight_shares``;
other folders may import the rest.
"""
