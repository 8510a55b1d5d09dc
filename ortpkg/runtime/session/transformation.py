"""Apply the graph transformers of a session's levels to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.graph.graph import Node
from ortpkg.graph.model import Model
from ortpkg.graph.shapes.inference import infer_types, types_are_known
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.constant_evaluator import ConstantEvaluator
from ortpkg.runtime.engine.transformers import TransformContext, TransformLevel, apply_transformers
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.added_transformers import NO_TRANSFORMERS, AddedTransformers

#: Levels after partitioning, in order; the basic level comes before it. Casts come first, since
#: float32 nodes fuse.
LATER_LEVELS = (TransformLevel.DEFAULT, TransformLevel.EXTENDED, TransformLevel.LAYOUT)
_MOST_FOLDED_NBYTES = 256 << 20


def transform(
    model: Model,
    levels: Sequence[TransformLevel],
    highest: int,
    context: TransformContext,
    added: AddedTransformers = NO_TRANSFORMERS,
) -> None:
    """Apply those of ``levels`` up to ``highest``, and the default level in any case.

    ``added``: transformers of the caller, by level, after the built-in ones of that level.
    """
    wanted = [level for level in levels if level is TransformLevel.DEFAULT or level <= highest]
    changes = sum(
        apply_transformers(model, level, context, added.get(level, ())) for level in wanted
    )
    # Inference may use folded constants as shapes; fusions state the types that they make.
    if changes and not types_are_known(model, with_sizes=TransformLevel.BASIC in wanted):
        infer_types(model)


def transform_context(
    providers: Sequence[ExecutionProvider], only: frozenset[str] | None = None
) -> TransformContext:
    """Return the context of transformers for ``providers``.

    ``only`` names the providers whose nodes may change.
    """

    def kernel_exists(node: Node, types: Mapping[str, ElementType]) -> bool:
        return any(
            provider.kernel_registry.try_find_kernel(node, types) is not None
            for provider in providers
            if provider.kernel_registry is not None
            and node.execution_provider in {"", provider.name}
        )

    return TransformContext(
        evaluate=ConstantEvaluator(providers, memory_limit_nbytes=_MOST_FOLDED_NBYTES),
        kernel_exists=kernel_exists,
        execution_providers=only,
        largest_constant_nbytes=_MOST_FOLDED_NBYTES,
    )
