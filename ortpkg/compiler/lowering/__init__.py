"""Lowering: turns ONNX nodes into operations of the tensor IR."""
