"""Find the precision that a variant computes in, from its metadata or its model."""

from __future__ import annotations

from ortpkg.foundations.errors import ModelError
from ortpkg.graph.model_signature import read_model_signature
from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.matching.variant_facts import (
    DATA_TYPES_FACT,
    QUANTIZATION_FACT,
    Precision,
    precision_of,
)


def precision_of_variant(variant: VariantInfo) -> Precision | None:
    """Return the precision that a variant states as its quantization, or else its model's.

    Packages of other tools state none; then the model's quantizing operators decide, or else the
    types of its weights. A stated ``data_types`` counts only if no model can be read, since an
    uint8 input does not make a quantized model.

    None if nothing is stated, and the variant is a set of files, or its model cannot be read or
    is all compiled.
    """
    precision = precision_of(variant.metadata)
    if precision is not None and QUANTIZATION_FACT in variant.metadata:
        return precision
    if variant.model_path is None:
        return precision
    try:
        signature = read_model_signature(variant.model_path)
    except ModelError:
        return precision  # the session reports what is wrong with it
    quantization = None if signature.quantization == "none" else signature.quantization
    if signature.has_contexts and quantization is None:
        return precision
    return precision_of({QUANTIZATION_FACT: quantization, DATA_TYPES_FACT: signature.element_types})
