"""The in-memory graph of a model, and ONNX files to it and from it.

Signatures without loading weights.
"""
