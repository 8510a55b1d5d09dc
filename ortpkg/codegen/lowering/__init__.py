"""From ONNX nodes to the tensor IR: for each operator, the operations that it is."""
