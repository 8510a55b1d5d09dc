"""Names that authors of graph transformers import, each loaded on first use.

docs/transformers.md shows how to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.foundations.public_names import module_of_name, public_object_of

if TYPE_CHECKING:
    from ortpkg.graph.graph import Graph as Graph
    from ortpkg.graph.graph import Node as Node
    from ortpkg.graph.types import ElementType as ElementType
    from ortpkg.graph.types import TensorType as TensorType
    from ortpkg.runtime.engine.transformers import GraphTransformer as GraphTransformer
    from ortpkg.runtime.engine.transformers import RewriteRule as RewriteRule
    from ortpkg.runtime.engine.transformers import TransformContext as TransformContext
    from ortpkg.runtime.engine.transformers import TransformLevel as TransformLevel
    from ortpkg.runtime.engine.transformers.rewriting import add_constant as add_constant
    from ortpkg.runtime.engine.transformers.rewriting import bypass_node as bypass_node
    from ortpkg.runtime.engine.transformers.rewriting import constant_array as constant_array
    from ortpkg.runtime.engine.transformers.rewriting import known_shape as known_shape
    from ortpkg.runtime.engine.transformers.rewriting import replace_nodes as replace_nodes
    from ortpkg.runtime.engine.transformers.rewriting import sole_consumer as sole_consumer
    from ortpkg.runtime.engine.transformers.rewriting import tensor_type as tensor_type

MODULE_OF_NAME = module_of_name(
    {
        "ortpkg.graph.graph": "Graph Node",
        "ortpkg.graph.types": "ElementType TensorType",
        "ortpkg.runtime.engine.transformers": (
            "GraphTransformer RewriteRule TransformContext TransformLevel"
        ),
        "ortpkg.runtime.engine.transformers.rewriting": (
            "add_constant bypass_node constant_array known_shape replace_nodes sole_consumer"
            " tensor_type"
        ),
    }
)


def __getattr__(name: str) -> Any:
    return public_object_of(name, MODULE_OF_NAME, __name__)


def __dir__() -> list[str]:
    return sorted(MODULE_OF_NAME)
