"""Exceptions and native classes, at the path where programs written for onnxruntime look for them.

No module of ortpkg imports this; ``ortpkg.capi`` loads when a program asks for it.
"""

from __future__ import annotations

from ortpkg.capi import _pybind_state as _pybind_state
from ortpkg.capi import onnxruntime_inference_collection as onnxruntime_inference_collection
from ortpkg.capi import onnxruntime_pybind11_state as onnxruntime_pybind11_state
