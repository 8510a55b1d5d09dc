"""Which transformers run at which level, in which order. The one table."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.engine.transformers.activation_fusion import ACTIVATION_FUSION
from ortpkg.engine.transformers.cast_elimination import CAST_ELIMINATION
from ortpkg.engine.transformers.common_subexpression_elimination import COMMON_SUBEXPRESSION_ELIMINATION
from ortpkg.engine.transformers.constant_folding import CONSTANT_FOLDING
from ortpkg.engine.transformers.constant_node_to_initializer import CONSTANT_NODE_TO_INITIALIZER
from ortpkg.engine.transformers.conv_affine_fusion import CONV_AFFINE_FUSION
from ortpkg.engine.transformers.conv_batch_normalization_fusion import CONV_BATCH_NORMALIZATION_FUSION
from ortpkg.engine.transformers.dropout_elimination import DROPOUT_ELIMINATION
from ortpkg.engine.transformers.identity_elimination import IDENTITY_ELIMINATION
from ortpkg.engine.transformers.insert_cast import INSERT_CAST
from ortpkg.engine.transformers.matmul_add_fusion import MATMUL_ADD_FUSION
from ortpkg.engine.transformers.neutral_element_elimination import NEUTRAL_ELEMENT_ELIMINATION
from ortpkg.engine.transformers.reshape_fusion import RESHAPE_ELIMINATION, RESHAPE_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.shape_folding import SHAPE_FOLDING
from ortpkg.engine.transformers.transform_context import GraphTransformer, TransformLevel
from ortpkg.engine.transformers.transpose_fusion import TRANSPOSE_ELIMINATION, TRANSPOSE_FUSION
from ortpkg.engine.transformers.unused_removal import UNUSED_REMOVAL

TRANSFORMERS: Mapping[TransformLevel, tuple[GraphTransformer, ...]] = {
    TransformLevel.DEFAULT: (INSERT_CAST,),
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
                SHAPE_FOLDING,
            ],
        ),
        CONSTANT_FOLDING,
        COMMON_SUBEXPRESSION_ELIMINATION,
        RuleDriver("basic-fusions", [CONV_BATCH_NORMALIZATION_FUSION, CONV_AFFINE_FUSION, MATMUL_ADD_FUSION]),
        UNUSED_REMOVAL,
    ),
    TransformLevel.EXTENDED: (RuleDriver("fusions", [ACTIVATION_FUSION]), UNUSED_REMOVAL),
    TransformLevel.LAYOUT: (),
}
