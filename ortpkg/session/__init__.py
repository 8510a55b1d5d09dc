"""``InferenceSession``: options, the stages of start-up, feeds and bindings, as onnxruntime's
Python interface has them.
"""
