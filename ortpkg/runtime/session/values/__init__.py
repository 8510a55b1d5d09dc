"""Values and devices of sessions, as onnxruntime names them."""
