"""Programs of ``make gpu`` that need ortpkg, numpy and onnx; each prints JSON at its end."""
