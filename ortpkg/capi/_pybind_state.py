"""The names of :mod:`ortpkg.capi.onnxruntime_pybind11_state`, where onnxruntime repeats them."""

from __future__ import annotations

from typing import Any

from ortpkg.capi import onnxruntime_pybind11_state


def __getattr__(name: str) -> Any:
    return getattr(onnxruntime_pybind11_state, name)
