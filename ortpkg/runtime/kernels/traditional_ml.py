"""Operators of ai.onnx.ml on maps, categories and labels; a sequence of maps is a list of dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.types import MapType, TensorType, numpy_dtype
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_DOMAIN = "ai.onnx.ml"
#: Bytes of a map besides its entries, and of each entry.
_MAP_NBYTES, _ENTRY_NBYTES = 200, 90
#: Number of elements between two checks of a run's limits.
_ELEMENTS_AT_ONCE = 1 << 14
_CAST_TARGETS: dict[str, np.dtype[Any]] = {
    "TO_FLOAT": np.dtype(np.float32),
    "TO_INT64": np.dtype(np.int64),
    "TO_STRING": np.dtype(object),
}


@kernel("ZipMap", since=(1,), domain=_DOMAIN, uses_output_buffer=False)
def zip_map(info: OpKernelInfo) -> Compute:
    """Rows of scores as maps from class label to score."""
    labels = info.attribute("classlabels_int64s") or info.attribute("classlabels_strings") or ()

    def compute(context: OpKernelContext, x: Tensor) -> list[dict[Any, float]]:
        rows = x[None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != len(labels):
            raise ValueError(
                f"{len(labels)} class labels do not name the columns of scores of shape {x.shape}"
            )
        context.check_allocation(len(rows) * _MAP_NBYTES + rows.size * _ENTRY_NBYTES)
        maps = []
        for start in range(0, len(rows), _ELEMENTS_AT_ONCE):
            context.check_cancelled()
            block = rows[start : start + _ELEMENTS_AT_ONCE].tolist()
            maps += [dict(zip(labels, row, strict=True)) for row in block]
        return maps

    return compute


@kernel("CastMap", since=(1,), domain=_DOMAIN)
def cast_map(info: OpKernelInfo) -> Compute:
    """Map from int64 as a row: values by rising key, or (SPARSE) each at its key, else 0."""
    dtype = _CAST_TARGETS.get(info.attribute("cast_to", "TO_FLOAT"))
    if dtype is None:
        raise InvalidGraphError(
            f"{info.node}: cast_to is one of {', '.join(_CAST_TARGETS)}", node_name=info.node.name
        )
    is_sparse = info.attribute("map_form", "DENSE") == "SPARSE"
    width = int(info.attribute("max_map", 1))
    zero = "0" if dtype == np.dtype(object) else 0

    def compute(context: OpKernelContext, entries: dict[int, Any]) -> Tensor:
        keys = sorted(entries)
        if is_sparse and keys and not 0 <= keys[0] <= keys[-1] < width:
            raise ValueError(
                f"keys of a sparse map lie in [0, {width}), but these reach from {keys[0]} to"
                f" {keys[-1]}"
            )
        out = context.output(0, (1, width if is_sparse else len(keys)), dtype)
        out[...] = zero
        for position, key in enumerate(keys):
            value = entries[key]
            if dtype != np.dtype(object):
                value = dtype.type(value)
            elif not isinstance(value, str):
                value = f"{value:f}"  # ONNX does not define the text; this is onnxruntime's
            out[0, key if is_sparse else position] = value
        return out

    return compute


@kernel("DictVectorizer", since=(1,), domain=_DOMAIN)
def dict_vectorizer(info: OpKernelInfo) -> Compute:
    """Map as a row: the values of the vocabulary's keys, zeros (empty texts) for missing ones."""
    vocabulary = info.attribute("string_vocabulary") or info.attribute("int64_vocabulary") or ()
    kind = info.input_type(0)
    if not isinstance(kind, MapType) or not isinstance(kind.value, TensorType):
        raise InvalidGraphError(f"{info.node}: the input is a map of numbers or texts, not {kind}")
    dtype = numpy_dtype(kind.value.element_type)

    def compute(context: OpKernelContext, entries: dict[Any, Any]) -> Tensor:
        out = context.output(0, (1, len(vocabulary)), dtype)
        zero = "" if dtype == np.dtype(object) else 0
        out[0] = [entries.get(key, zero) for key in vocabulary]
        return out

    return compute


@kernel("CategoryMapper", since=(1,), domain=_DOMAIN)
def category_mapper(info: OpKernelInfo) -> Compute:
    """Strings to integers or back, by two lists of equal length.

    Strings and integers that are not listed get the default.
    """
    numbers, texts = info.attribute("cats_int64s") or (), info.attribute("cats_strings") or ()
    if len(numbers) != len(texts):
        raise InvalidGraphError(
            f"{info.node}: {len(numbers)} integers and {len(texts)} strings do not pair",
            node_name=info.node.name,
        )
    to_number, to_text = (
        dict(zip(texts, numbers, strict=True)),
        dict(zip(numbers, texts, strict=True)),
    )
    default_number = int(info.attribute("default_int64", -1))
    default_text = str(info.attribute("default_string", "_Unused"))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.dtype == np.dtype(object):
            return _encoded(
                context, x, lambda text: to_number.get(text, default_number), np.dtype(np.int64)
            )
        return _encoded(
            context, x, lambda number: to_text.get(number, default_text), np.dtype(object)
        )

    return compute


@kernel("LabelEncoder", since=(1,), domain=_DOMAIN)
def label_encoder_1(info: OpKernelInfo) -> Compute:
    """Strings to their index in a list of classes, or indices back to strings."""
    classes = info.attribute("classes_strings") or ()
    to_index = {text: index for index, text in enumerate(classes)}
    default_index = int(info.attribute("default_int64", -1))
    default_text = str(info.attribute("default_string", "_Unused"))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.dtype == np.dtype(object):
            return _encoded(
                context, x, lambda text: to_index.get(text, default_index), np.dtype(np.int64)
            )
        return _encoded(
            context,
            x,
            lambda index: classes[index] if 0 <= index < len(classes) else default_text,
            np.dtype(object),
        )

    return compute


@kernel("LabelEncoder", since=(2, 4), domain=_DOMAIN)
def label_encoder(info: OpKernelInfo) -> Compute:
    """Keys to values; NaN is a key like another.

    Keys and values are lists of one type each, or (4) tensors.
    """
    keys, _ = _listed(info, "keys")
    values, dtype = _listed(info, "values")
    if len(keys) != len(values):
        raise InvalidGraphError(
            f"{info.node}: {len(keys)} keys and {len(values)} values do not pair",
            node_name=info.node.name,
        )
    # A key that occurs twice has its first value, as in onnxruntime.
    pairs = reversed(list(zip(keys, values, strict=True)))
    table = {_NAN if key != key else key: value for key, value in pairs}
    default = _default_label(info, dtype)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        return _encoded(
            context, x, lambda key: table.get(_NAN if key != key else key, default), dtype
        )

    return compute


_NAN = object()  # stands for NaN as a key, which equals nothing, not even itself
_LABEL_TYPES: dict[str, tuple[np.dtype[Any], Any]] = {
    "strings": (np.dtype(object), "_Unused"),
    "int64s": (np.dtype(np.int64), -1),
    "floats": (np.dtype(np.float32), -0.0),
}


def _listed(info: OpKernelInfo, name: str) -> tuple[list[Any], np.dtype[Any]]:
    """Return a LabelEncoder's keys or values as Python values, and their element type."""
    tensor = info.attribute(f"{name}_tensor")
    if tensor is not None:
        array = np.asarray(tensor)
        array = array.astype(object) if array.dtype.kind in "SU" else array
        return [
            x.decode() if isinstance(x, bytes) else x for x in array.ravel().tolist()
        ], array.dtype
    for suffix, (dtype, _) in _LABEL_TYPES.items():
        elements = info.attribute(f"{name}_{suffix}")
        if elements:
            return np.array(elements, dtype=dtype).tolist(), dtype
    raise InvalidGraphError(f"{info.node} has no {name}", node_name=info.node.name)


def _default_label(info: OpKernelInfo, dtype: np.dtype[Any]) -> Any:
    tensor = info.attribute("default_tensor")
    if tensor is not None and np.asarray(tensor).size:
        label = np.asarray(tensor).ravel().tolist()[0]
        return label.decode() if isinstance(label, bytes) else label
    names = {"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}
    for suffix, (label_dtype, default) in _LABEL_TYPES.items():
        if label_dtype == dtype:
            return info.attribute(names[suffix], default)
    return -1 if dtype.kind in "iu" else -0.0


def _encoded(
    context: OpKernelContext, x: Tensor, encode: Callable[[Any], Any], dtype: np.dtype[Any]
) -> Tensor:
    """Encode each element; between blocks, check if the run is to end."""
    out = context.output(0, x.shape, dtype)
    flat_x, flat_out = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.size, _ELEMENTS_AT_ONCE):
        context.check_cancelled()
        block = slice(start, start + _ELEMENTS_AT_ONCE)
        flat_out[block] = [encode(value) for value in flat_x[block].tolist()]
    return out
