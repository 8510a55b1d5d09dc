"""Which transformers run at which level, in which order. The one table."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.engine.transformers.cast_elimination import CAST_ELIMINATION
from ortpkg.engine.transformers.common_subexpression_elimination import COMMON_SUBEXPRESSION_ELIMINATION
from ortpkg.engine.transformers.constant_folding import CONSTANT_FOLDING
from ortpkg.engine.transformers.constant_node_to_initializer import CONSTANT_NODE_TO_INITIALIZER
from ortpkg.engine.transformers.dropout_elimination import DROPOUT_ELIMINATION
from ortpkg.engine.transformers.identity_elimination import IDENTITY_ELIMINATION
from ortpkg.engine.transformers.neutral_element_elimination import NEUTRAL_ELEMENT_ELIMINATION
from ortpkg.engine.transformers.reshape_fusion import RESHAPE_ELIMINATION, RESHAPE_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.transform_context import GraphTransformer, TransformLevel
from ortpkg.engine.transformers.transpose_fusion import TRANSPOSE_ELIMINATION, TRANSPOSE_FUSION
from ortpkg.engine.transformers.unused_removal import UNUSED_REMOVAL

TRANSFORMERS: Mapping[TransformLevel, tuple[GraphTransformer, ...]] = {
    TransformLevel.DEFAULT: (),
    TransformLevel.BASIC: (
        RuleDriver(
            "basic-rules",
            [
                CONSTANT_NODE_TO_INITIALIZER,
                IDENTITY_ELIMINATION,
                DROPOUT_ELIMINATION,
                CAST_ELIMINATION,
                TRANSPOSE_ELIMINATION,
                TRANSPOSE_FUSION,
                RESHAPE_ELIMINATION,
                RESHAPE_FUSION,
                NEUTRAL_ELEMENT_ELIMINATION,
            ],
        ),
        CONSTANT_FOLDING,
        COMMON_SUBEXPRESSION_ELIMINATION,
        UNUSED_REMOVAL,
    ),
    TransformLevel.EXTENDED: (),
    TransformLevel.LAYOUT: (),
}
