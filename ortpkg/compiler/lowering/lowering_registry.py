"""Registry of the functions that lower operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType

from ortpkg.compiler.lowering.lowering_scope import LoweringScope
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Node

Lower = Callable[[LoweringScope, Node], None]
Key = tuple[str, str]

_TAG = "lowered_operators"


def lowers(*op_types: str, domain: str = ONNX_DOMAIN) -> Callable[[Lower], Lower]:
    """Tag a function that lowers these operators, in all versions that a model may import."""

    def tag(function: Lower) -> Lower:
        keys = {*getattr(function, _TAG, ()), *((domain, op_type) for op_type in op_types)}
        setattr(function, _TAG, keys)
        return function

    return tag


def lowerings_of(*modules: ModuleType) -> Mapping[Key, Lower]:
    """Return the tagged functions of modules, by domain and operator."""
    return {
        key: function
        for module in modules
        for function in vars(module).values()
        for key in getattr(function, _TAG, ())
    }


__all__ = ["MICROSOFT_DOMAIN", "Lower", "lowerings_of", "lowers"]
