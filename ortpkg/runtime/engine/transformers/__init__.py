"""Graph transformers: one per file, their order in ``order.py``, run by ``apply.py``.

Other folders may import: what is imported here, ``insert_cast``, ``rewriting``,
``rule_driver``.
"""

from ortpkg.runtime.engine.transformers.apply import apply_transformers
from ortpkg.runtime.engine.transformers.transform_context import (
    ConstantEvaluator,
    GraphTransformer,
    KernelExists,
    RewriteRule,
    TransformContext,
    TransformLevel,
)

__all__ = [
    "ConstantEvaluator",
    "GraphTransformer",
    "KernelExists",
    "RewriteRule",
    "TransformContext",
    "TransformLevel",
    "apply_transformers",
]
