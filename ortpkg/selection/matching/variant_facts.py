"""Size, memory and precision of a variant, from its recorded facts.

Nothing is measured or read here. The facts are the publisher's (``metadata`` of a variant,
docs/formats.md). A fact that is missing or malformed is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from math import inf
from typing import Any

#: Keys of a variant's metadata.
SIZE_FACT = "nbytes"
PEAK_MEMORY_FACT = "peak_memory_nbytes"
DATA_TYPES_FACT = "data_types"
QUANTIZATION_FACT = "quantization"
SHARE_FACT = "compiled_share"


class Precision(IntEnum):
    """Numeric precision, the lowest first; the two half formats count as one."""

    INT4 = 1
    INT8 = 2
    FP16 = 3
    FP32 = 4
    FP64 = 5

    @property
    def label(self) -> str:
        """Name for people; both 16-bit floats are one step of the order."""
        return "fp16/bf16" if self is Precision.FP16 else self.name.lower()


#: Names that people use → precision.
PRECISIONS: Mapping[str, Precision] = {
    "int4": Precision.INT4,
    "int8": Precision.INT8,
    "fp16": Precision.FP16,
    "bf16": Precision.FP16,
    "fp32": Precision.FP32,
    "fp64": Precision.FP64,
}
#: Element types of ONNX (its text form, and that of the protobuf enum) and words for quantization.
_PRECISION_OF_WORD: Mapping[str, Precision] = {
    **PRECISIONS,
    "int2": Precision.INT4,
    "uint2": Precision.INT4,
    "uint4": Precision.INT4,
    "float4e2m1": Precision.INT4,
    "float4": Precision.INT4,
    "uint8": Precision.INT8,
    "float8": Precision.INT8,
    "float8e4m3fn": Precision.INT8,
    "float8e4m3fnuz": Precision.INT8,
    "float8e5m2": Precision.INT8,
    "float8e5m2fnuz": Precision.INT8,
    "int16": Precision.FP16,
    "uint16": Precision.FP16,
    "float16": Precision.FP16,
    "bfloat16": Precision.FP16,
    "float": Precision.FP32,
    "float32": Precision.FP32,
    "double": Precision.FP64,
    "float64": Precision.FP64,
}
_WORD = re.compile(r"[a-z0-9.]+")


def size_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the recorded bytes of the variant's files; None if unknown."""
    return _whole_number(metadata.get(SIZE_FACT))


def peak_memory_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the most memory in use during a run in bytes, as the publisher declares it."""
    return _whole_number(metadata.get(PEAK_MEMORY_FACT))


def precision_of(metadata: Mapping[str, Any]) -> Precision | None:
    """Return the lowest precision that the variant computes in; None if unknown.

    ``quantization`` decides ("qdq-int8": int8; "fp16"). If it is recorded as none, the lowest
    floating-point type of ``data_types`` decides; if it is not recorded, the lowest of all of them.
    """
    quantization = metadata.get(QUANTIZATION_FACT)
    if isinstance(quantization, str) and (precision := _lowest(words_of(quantization))) is not None:
        return precision
    types = metadata.get(DATA_TYPES_FACT)
    if not isinstance(types, list | tuple):
        return None
    names = [data_type.lower() for data_type in types if isinstance(data_type, str)]
    is_unquantized = QUANTIZATION_FACT in metadata and (
        quantization is None or quantization == "none"
    )
    return _lowest(name for name in names if not is_unquantized or "int" not in name)


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case: runs of letters, digits and dots.

    "qdq-int8" has the words "qdq" and "int8".
    """
    return _WORD.findall(text.lower())


def _lowest(words: Iterable[str]) -> Precision | None:
    return min(
        (_PRECISION_OF_WORD[word] for word in words if word in _PRECISION_OF_WORD), default=None
    )


def _whole_number(value: object) -> int | None:
    """Return ``value`` if it can be a number of bytes, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 63:
        return None
    return int(value)


def calls_of(metadata: Mapping[str, Any]) -> float:
    """Return the cost of calls between pieces of code, per operation of the model."""
    share = metadata.get(SHARE_FACT)
    calls = share.get("calls") if isinstance(share, Mapping) else None
    if isinstance(calls, int | float) and not isinstance(calls, bool) and 0 <= calls < inf:
        return float(calls)
    return 0.0


def share_of_work(metadata: Mapping[str, Any]) -> float | None:
    """Return the share of the model's work, or else nodes, in compiled code, from 0 to 1."""
    share = metadata.get(SHARE_FACT)
    if not isinstance(share, Mapping):
        return None
    for key in ("work", "nodes"):
        part = share.get(key)
        if isinstance(part, int | float) and not isinstance(part, bool) and 0 <= part <= 1:
            return float(part)
    return None
