"""Precision that a variant computes in, from what it declares or else from its model."""

from __future__ import annotations

from ortpkg.errors import ModelError
from ortpkg.graph.model_signature import read_model_signature
from ortpkg.package.package_info import VariantInfo
from ortpkg.selection.variant_facts import (
    DATA_TYPES_FACT,
    QUANTIZATION_FACT,
    Precision,
    precision_of,
)


def precision_of_variant(variant: VariantInfo) -> Precision | None:
    """Return the precision that a variant states as its quantization, or else its model's.

    Packages of other tools state none. The model's quantizing operators tell it, and where there
    are none its weights. ``data_types`` alone count only where no model can be read: an uint8
    input makes no quantized model.

    None where nothing tells: a set of files, a model that cannot be read, or whose operators are
    all compiled.
    """
    stated = precision_of(variant.metadata)
    if stated is not None and QUANTIZATION_FACT in variant.metadata:
        return stated
    if variant.model_path is None:
        return stated
    try:
        signature = read_model_signature(variant.model_path)
    except ModelError:
        return stated  # the session says what is wrong with it
    quantization = None if signature.quantization == "none" else signature.quantization
    if signature.has_contexts and quantization is None:
        return stated
    return precision_of({QUANTIZATION_FACT: quantization, DATA_TYPES_FACT: signature.element_types})
