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

#: Least share of a model's weights that makes its precision that of few bits.
_MOST = 0.5


def precision_of_variant(variant: VariantInfo) -> Precision | None:
    """Return the precision that a variant states as its quantization, or else its model's.

    Packages of other tools state none; then the model's quantizing operators decide, or else the
    types of its weights. A stated ``data_types`` counts only if no model can be read, since an
    uint8 input does not make a quantized model. A model with fewer than half of its weights in
    8 bits or less has the precision of its floats, though a few of its numbers are quantized,
    unless its publisher states another quantization than the model shows.

    None if nothing is stated, and the variant is a set of files, or its model cannot be read or
    is all compiled.
    """
    precision = precision_of(variant.metadata)
    is_stated = precision is not None and QUANTIZATION_FACT in variant.metadata
    if variant.model_path is None or (is_stated and not _is_few_bits(precision)):
        return precision
    try:
        signature = read_model_signature(variant.model_path)
    except ModelError:
        return precision  # the session reports what is wrong with it
    quantization = None if signature.quantization == "none" else signature.quantization
    if signature.has_contexts and (is_stated or quantization is None):
        return precision
    if is_stated and variant.metadata[QUANTIZATION_FACT] != quantization:
        return precision
    types = signature.element_types
    of_model = precision_of({QUANTIZATION_FACT: quantization, DATA_TYPES_FACT: types})
    share = signature.few_bits_share
    if _is_few_bits(of_model) and share is not None and share < _MOST:
        return precision_of({QUANTIZATION_FACT: None, DATA_TYPES_FACT: types})
    return of_model


def _is_few_bits(precision: Precision | None) -> bool:
    return precision is not None and precision <= Precision.INT8
