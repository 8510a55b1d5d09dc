"""Transformers of each level, in the order in which they run; nothing else orders them.

Rules that only make numpy faster do not belong here: speed is the job of machine code, whose
compiler fuses operations itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.runtime.engine.transformers.batch_normalization_affine_fusion import (
    BATCH_NORMALIZATION_AFFINE_FUSION,
)
from ortpkg.runtime.engine.transformers.cast_elimination import CAST_ELIMINATION
from ortpkg.runtime.engine.transformers.cast_like_to_cast import CAST_LIKE_TO_CAST
from ortpkg.runtime.engine.transformers.common_subexpression_elimination import (
    COMMON_SUBEXPRESSION_ELIMINATION,
)
from ortpkg.runtime.engine.transformers.constant_folding import CONSTANT_FOLDING
from ortpkg.runtime.engine.transformers.constant_node_to_initializer import (
    CONSTANT_NODE_TO_INITIALIZER,
)
from ortpkg.runtime.engine.transformers.conv_affine_fusion import CONV_AFFINE_FUSION
from ortpkg.runtime.engine.transformers.conv_batch_normalization_fusion import (
    CONV_BATCH_NORMALIZATION_FUSION,
)
from ortpkg.runtime.engine.transformers.dequantize_gather_fusion import DEQUANTIZE_GATHER_FUSION
from ortpkg.runtime.engine.transformers.dropout_elimination import DROPOUT_ELIMINATION
from ortpkg.runtime.engine.transformers.identity_elimination import (
    CARRIED_IDENTITY_ELIMINATION,
    IDENTITY_ELIMINATION,
)
from ortpkg.runtime.engine.transformers.insert_cast import INSERT_CAST
from ortpkg.runtime.engine.transformers.known_elements_folding import KNOWN_ELEMENTS_FOLDING
from ortpkg.runtime.engine.transformers.known_if_inlining import KNOWN_IF_INLINING
from ortpkg.runtime.engine.transformers.matmul_add_fusion import MATMUL_ADD_FUSION
from ortpkg.runtime.engine.transformers.neutral_element_elimination import (
    NEUTRAL_ELEMENT_ELIMINATION,
)
from ortpkg.runtime.engine.transformers.pad_fusion import PAD_FUSION
from ortpkg.runtime.engine.transformers.reshape_fusion import RESHAPE_ELIMINATION, RESHAPE_FUSION
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.shape_folding import SHAPE_FOLDING
from ortpkg.runtime.engine.transformers.sum_to_add import SUM_TO_ADD
from ortpkg.runtime.engine.transformers.transform_context import GraphTransformer, TransformLevel
from ortpkg.runtime.engine.transformers.transpose_fusion import (
    TRANSPOSE_ELIMINATION,
    TRANSPOSE_FUSION,
)
from ortpkg.runtime.engine.transformers.unused_removal import UNUSED_REMOVAL
from ortpkg.runtime.engine.transformers.weight_dequantization import WEIGHT_DEQUANTIZATION

TRANSFORMERS: Mapping[TransformLevel, tuple[GraphTransformer, ...]] = {
    TransformLevel.DEFAULT: (RuleDriver("default-rules", [CAST_LIKE_TO_CAST]), INSERT_CAST),
    TransformLevel.BASIC: (
        RuleDriver(
            "basic-rules",
            [
                CONSTANT_NODE_TO_INITIALIZER,
                KNOWN_IF_INLINING,
                IDENTITY_ELIMINATION,
                DROPOUT_ELIMINATION,
                CAST_LIKE_TO_CAST,
                CAST_ELIMINATION,
                TRANSPOSE_ELIMINATION,
                TRANSPOSE_FUSION,
                RESHAPE_ELIMINATION,
                RESHAPE_FUSION,
                NEUTRAL_ELEMENT_ELIMINATION,
                SHAPE_FOLDING,
                SUM_TO_ADD,
            ],
        ),
        KNOWN_ELEMENTS_FOLDING,
        CONSTANT_FOLDING,
        COMMON_SUBEXPRESSION_ELIMINATION,
        RuleDriver(
            "basic-fusions",
            [
                PAD_FUSION,
                CONV_BATCH_NORMALIZATION_FUSION,
                CONV_AFFINE_FUSION,
                BATCH_NORMALIZATION_AFFINE_FUSION,
                MATMUL_ADD_FUSION,
            ],
        ),
        UNUSED_REMOVAL,
    ),
    TransformLevel.EXTENDED: (
        RuleDriver("carried-values", [CARRIED_IDENTITY_ELIMINATION]),
        RuleDriver("quantized-tables", [DEQUANTIZE_GATHER_FUSION]),
        WEIGHT_DEQUANTIZATION,
        UNUSED_REMOVAL,
    ),
    TransformLevel.LAYOUT: (),
}
