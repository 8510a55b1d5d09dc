"""Check a caller's feeds against the model's inputs, and convert them to the engine's form.

Tensors are numpy arrays (or numpy scalars), OrtValues, or lists that numpy turns into arrays, as in
onnxruntime. A tensor on a device stays there if the session can use it there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidFeedError, UsageError, quoted
from ortpkg.foundations.isolation.polling import poll_run, polled
from ortpkg.foundations.names import did_you_mean
from ortpkg.graph.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    numpy_dtype,
)
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor, Value
from ortpkg.runtime.session.node_args import NodeArg
from ortpkg.runtime.session.values.device_values import as_array
from ortpkg.runtime.session.values.ort_value import OrtValue
from ortpkg.runtime.session.values.sparse_tensor import SparseTensor

_MOST_NAMES_SHOWN = 10
_MOST_BYTES_SHOWN = 40
_LEFT_OUT = object()
_NO_MEMORIES: Mapping[str, str] = MappingProxyType({})
#: Number of texts after which a run checks again whether it should end.
_TEXTS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class _PlainInput:
    """A numeric tensor as a model declares it.

    Attributes:
        name: name of the input.
        dtype: its element type.
        shape: the shape if all dimensions are fixed; else None.
        rank: the number of dimensions; None for any.
        fixed: (axis, size) of the fixed dimensions.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    rank: int | None
    fixed: tuple[tuple[int, int], ...]


class FeedCheck:
    """:func:`check_feeds` for the inputs of one model, faster for arrays that fit exactly."""

    def __init__(
        self,
        inputs: Sequence[NodeArg],
        optional: Collection[str],
        memories: Mapping[str, str] = _NO_MEMORIES,
    ) -> None:
        """Prepare the check for one model.

        Args:
            inputs: all inputs of the model.
            optional: names of inputs that need not be fed.
            memories: input → name of the device memory in which it is read without a copy.
        """
        self._inputs = inputs
        self._optional = optional
        self._memories = memories
        self._plain = _plain_inputs(inputs)

    def __call__(self, feeds: Mapping[str, Any], check: Callable[[], None]) -> list[Value]:
        """Return one value per input, as :func:`check_feeds` does.

        ``check`` raises if the run should end; it is called repeatedly in a long check.
        """
        if self._plain is not None and type(feeds) is dict and len(feeds) == len(self._plain):
            values: list[Value] = []
            for declared in self._plain:
                value = feeds.get(declared.name, _LEFT_OUT)
                if type(value) is np.ndarray:
                    flags = value.flags
                    # carray: C-contiguous, aligned and writable, as most arrays are. A server's
                    # are not writable, since they are views of the bytes received.
                    if not flags.carray and not (flags.c_contiguous and flags.aligned):
                        break
                elif type(value) is not DeviceTensor:
                    break
                elif self._memories.get(declared.name) != value.memory:
                    value = as_array(value)
                if value.dtype != declared.dtype:
                    break
                shape = value.shape
                if declared.shape is not None:
                    if shape != declared.shape:
                        break
                elif declared.rank is not None and not _has_shape(
                    shape, declared.rank, declared.fixed
                ):
                    break
                values.append(value)
            else:
                return values
        with polled(check):
            return check_feeds(feeds, self._inputs, self._optional, self._memories)


def _plain_inputs(inputs: Sequence[NodeArg]) -> tuple[_PlainInput, ...] | None:
    """Return one entry per input; None if one of them is not a numeric tensor."""
    plain = []
    for declared in inputs:
        kind = declared.value_type
        if not isinstance(kind, TensorType) or kind.element_type in (
            ElementType.STRING,
            ElementType.UNDEFINED,
        ):
            return None
        sizes = () if kind.shape is None else tuple(enumerate(kind.shape))
        fixed = tuple((axis, size) for axis, size in sizes if isinstance(size, int))
        is_fixed = kind.shape is not None and len(fixed) == len(sizes)
        plain.append(
            _PlainInput(
                name=declared.name,
                dtype=numpy_dtype(kind.element_type),
                shape=tuple(size for _, size in fixed) if is_fixed else None,
                rank=None if kind.shape is None else len(sizes),
                fixed=fixed,
            )
        )
    return tuple(plain)


def _has_shape(shape: tuple[int, ...], rank: int, fixed: Sequence[tuple[int, int]]) -> bool:
    if len(shape) != rank:
        return False
    for axis, size in fixed:  # noqa: SIM110 - a generator costs more than the comparison
        if shape[axis] != size:
            return False
    return True


def check_feeds(
    feeds: Mapping[str, Any],
    inputs: Sequence[NodeArg],
    optional: Collection[str],
    memories: Mapping[str, str] = _NO_MEMORIES,
) -> list[Value]:
    """Return one value per input, in order; None for an optional input that is not fed.

    Args:
        feeds: input → value.
        inputs: all inputs of the model.
        optional: names of inputs that need not be fed.
        memories: input → name of a device's memory. A tensor in this memory stays there; one in
            another memory is copied to the CPU's.

    Raises:
        InvalidFeedError: an unknown or missing name, a wrong element type, rank or fixed dimension.
    """
    names = [declared.name for declared in inputs]
    if not isinstance(feeds, Mapping):
        raise InvalidFeedError(
            f"the feeds are a {type(feeds).__name__}; a mapping from input names to values was"
            " expected",
            name="",
            expected=_listed(names),
        )
    all_names = frozenset(names)
    for name in feeds:
        if name not in all_names:
            raise InvalidFeedError(
                f"the model has no input {quoted(name)}{did_you_mean(str(name), names)}; its"
                f" inputs are {_listed(names)}",
                name=str(name),
                expected=_listed(names),
            )
    check_all_are_fed(feeds, inputs, optional)
    values: list[Value] = []
    for declared in inputs:
        if declared.name in feeds:
            value = _value_in_memory(feeds[declared.name], memories.get(declared.name, ""))
            values.append(_checked(declared.name, declared.value_type, value))
        else:
            values.append(None)
    return values


def _value_in_memory(value: Any, memory: str) -> Any:
    """Return a fed value: as it is if it lies in ``memory``, else as an array."""
    if isinstance(value, OrtValue):
        value = value.value
    return value if isinstance(value, DeviceTensor) and value.memory == memory else as_array(value)


def check_all_are_fed(
    feeds: Mapping[str, Any], inputs: Sequence[NodeArg], optional: Collection[str]
) -> None:
    """Raise InvalidFeedError, with onnxruntime's text, if a required input is not fed."""
    needed = [
        declared
        for declared in inputs
        if declared.name not in optional and not isinstance(declared.value_type, OptionalType)
    ]
    missing = [declared for declared in needed if declared.name not in feeds]
    if missing:
        raise InvalidFeedError(
            f"Required inputs ([{_listed([arg.name for arg in missing])}]) are missing from input"
            f" feed ([{_listed([*map(str, feeds)])}]).",
            name=missing[0].name,
            expected=missing[0].type,
        )


def check_output_names(names: Sequence[str] | None, outputs: Sequence[str]) -> list[int] | None:
    """Return the positions of ``names`` among ``outputs``; None if no names are given.

    Raises:
        UsageError: an unknown name.
        TypeError: one string instead of a list of names, or an element that is not a name.
    """
    if names is None:  # the usual case
        return None
    if isinstance(names, str):
        raise TypeError(f"output_names is a list of names, such as [{quoted(names)}], not one text")
    entries: list[Any] = list(names or ())
    names = [name.decode(errors="replace") if isinstance(name, bytes) else name for name in entries]
    if not names:
        return None
    positions = {name: position for position, name in enumerate(outputs)}
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"output_names is a list of names; {quoted(name)} is none")
        if name not in positions:
            raise UsageError(
                f"the model has no output {quoted(name)}{did_you_mean(name, outputs)}; "
                f"its outputs are {_listed(outputs)}"
            )
    return [positions[name] for name in names]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:_MOST_NAMES_SHOWN])
    return shown + (
        f" and {len(names) - _MOST_NAMES_SHOWN} more" if len(names) > _MOST_NAMES_SHOWN else ""
    )


def _checked(name: str, declared: ValueType | None, value: Any) -> Value:
    if isinstance(value, OrtValue):
        value = as_array(value.value)
    if isinstance(declared, OptionalType):
        return None if value is None else _checked(name, declared.element, value)
    if isinstance(declared, TensorType):
        is_far = isinstance(value, DeviceTensor)
        return (_checked_device_tensor if is_far else _checked_tensor)(name, declared, value)
    if isinstance(declared, SparseTensorType):
        return _checked_sparse(name, declared, value)
    if isinstance(declared, SequenceType):
        if not isinstance(value, list | tuple):
            raise _wrong(name, str(declared), f"a {type(value).__name__}")
        return [_checked(name, declared.element, element) for element in value]
    if isinstance(declared, MapType):
        return _checked_map(name, declared, value)
    return value


def _checked_sparse(name: str, declared: SparseTensorType, value: Any) -> Tensor:
    """Return the tensor with its zeros: the engine computes with dense tensors."""
    if not isinstance(value, SparseTensor):
        raise _wrong(name, f"a SparseTensor of {declared}", f"a {type(value).__name__}")
    if value.element_type() is not declared.element_type:
        raise _wrong(name, str(declared), value.data_type())
    dense = value.to_dense()
    _check_shape(name, TensorType(declared.element_type, declared.shape), dense)
    return dense


def _checked_map(name: str, declared: MapType, value: Any) -> dict[int | str, Any]:
    """Return a map with Python's keys.

    Its values are numbers or texts as declared, or sequences and maps of these.
    """
    if not isinstance(value, Mapping):
        raise _wrong(name, str(declared), f"a {type(value).__name__}")
    key_kind = str if declared.key is ElementType.STRING else int
    checked: dict[int | str, Any] = {}
    for key, entry in value.items():
        if not isinstance(key, (str,) if key_kind is str else (int, np.integer)):
            raise _wrong(name, str(declared), f"a map with a key of type {type(key).__name__}")
        if isinstance(declared.value, TensorType):
            is_text = declared.value.element_type is ElementType.STRING
            if not isinstance(entry, (str,) if is_text else (int, float, np.generic, np.ndarray)):
                raise _wrong(
                    name, str(declared), f"a map with a value of type {type(entry).__name__}"
                )
            checked[key_kind(key)] = entry
        else:
            checked[key_kind(key)] = _checked(name, declared.value, entry)
    return checked


def _checked_tensor(name: str, declared: TensorType, value: Any) -> Tensor:
    if declared.element_type is ElementType.STRING:
        return _checked_strings(name, declared, value)
    if type(value) is list:
        value = _array_of_list(name, declared, value)
    if not isinstance(value, np.ndarray | np.generic):
        raise _wrong(name, f"a numpy array of {declared}", f"a {type(value).__name__}")
    array = np.asarray(value)
    if declared.element_type is not ElementType.UNDEFINED:
        dtype = numpy_dtype(declared.element_type)
        if array.dtype != dtype:
            if not array.dtype.isnative and array.dtype.newbyteorder("=") == dtype:
                array = array.astype(dtype)
            else:
                raise _wrong(name, f"{declared} (numpy {dtype})", f"numpy {array.dtype}")
    if declared.shape == () and array.size == 1:
        # programs feed arrays of one element for scalars, which onnxruntime accepts
        array = array.reshape(())
    _check_shape(name, declared, array)
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def _checked_device_tensor(name: str, declared: TensorType, value: DeviceTensor) -> Any:
    if declared.element_type is not ElementType.UNDEFINED:
        dtype = numpy_dtype(declared.element_type)
        if value.dtype != dtype:
            raise _wrong(name, f"{declared} (numpy {dtype})", f"numpy {value.dtype}")
    _check_shape(name, declared, value)
    return value


def _array_of_list(name: str, declared: TensorType, value: list[Any]) -> Tensor:
    """Return a list's numbers as the declared type; an error if fractions would be lost."""
    try:
        array = np.array(value)
    except ValueError as error:  # lists of different lengths
        raise _wrong(name, f"a list of {declared}", f"no rectangular list ({error})") from error
    if declared.element_type is ElementType.UNDEFINED:
        return array
    dtype = numpy_dtype(declared.element_type)
    if array.size and (
        array.dtype.kind not in "biufc" or (array.dtype.kind in "fc" and dtype.kind in "biu")
    ):
        raise _wrong(name, f"a list of {declared}", f"a list of numpy {array.dtype}")
    return array.astype(dtype)


def _checked_strings(name: str, declared: TensorType, value: Any) -> Tensor:
    array = value if isinstance(value, np.ndarray) else np.array(value, dtype=object)
    # Bytes of one length, NULs at their ends included; small floats are of kind V, too.
    is_bytes = array.dtype.type is np.void and array.dtype.names is None
    if array.dtype.kind not in "USO" and not is_bytes:
        raise _wrong(name, str(declared), f"numpy {array.dtype}")
    _check_shape(name, declared, array)
    texts = np.empty(array.shape, object)
    source, target = array.reshape(-1), texts.reshape(-1)
    for start in range(0, source.size, _TEXTS_AT_ONCE):
        poll_run()
        block = slice(start, start + _TEXTS_AT_ONCE)
        try:
            elements = _elements(source[block])
        except UnicodeDecodeError:
            raise _no_text(name, array, block) from None
        target[block] = [_checked_text(name, declared, element) for element in elements]
    return texts


def _elements(texts: Tensor) -> list[Any]:
    """Return texts as Python's strings, decoding bytes as UTF-8.

    Raises:
        UnicodeDecodeError: bytes that are not text.
    """
    if texts.dtype.kind == "V":
        return [element.tobytes().decode("utf-8") for element in texts]
    elements: list[Any] = (
        np.char.decode(texts, "utf-8") if texts.dtype.kind == "S" else texts
    ).tolist()
    return elements


def _no_text(name: str, array: Tensor, block: slice) -> InvalidFeedError:
    """Return the error for the first element that is not text in a block of the flat array."""
    elements = array.reshape(-1)[block]
    for position, element in enumerate(
        elements.tolist() if array.dtype.kind == "S" else map(bytes, elements)
    ):
        try:
            element.decode("utf-8")
        except UnicodeDecodeError as error:
            index = [
                int(coordinate)
                for coordinate in np.unravel_index(block.start + position, array.shape)
            ]
            where = f"element {index} of input {quoted(name)}" if index else f"input {quoted(name)}"
            actual = (
                f"the byte 0x{element[error.start]:02x} at position {error.start} of"
                f" {_shown_bytes(element)}"
            )
            return InvalidFeedError(
                f"{where} is no text in UTF-8: {actual}",
                name=name,
                expected="text in UTF-8",
                actual=actual,
            )
    raise AssertionError(f"all of {name} is text")


def _shown_bytes(element: bytes) -> str:
    return f"{element[:_MOST_BYTES_SHOWN]!r}" + ("..." if len(element) > _MOST_BYTES_SHOWN else "")


def _checked_text(name: str, declared: TensorType, element: Any) -> str:
    """Return the element as text; numbers as they are written."""
    if type(element) is str:
        return element
    if isinstance(element, int | float | np.generic):
        return str(element)
    if not isinstance(element, str):
        raise _wrong(name, str(declared), f"an element of type {type(element).__name__}")
    return element


def _check_shape(name: str, declared: TensorType, array: Tensor | DeviceTensor) -> None:
    if declared.shape is None:
        return
    expected = "[" + ", ".join("?" if d is None else str(d) for d in declared.shape) + "]"
    actual = str(list(array.shape))
    if len(declared.shape) != array.ndim:
        raise InvalidFeedError(
            f"input {quoted(name)} has rank {array.ndim} (shape {actual}), expected rank"
            f" {len(declared.shape)} (shape {quoted(expected)})",
            name=name,
            expected=expected,
            actual=actual,
        )
    for axis, (dimension, size) in enumerate(zip(declared.shape, array.shape, strict=True)):
        if isinstance(dimension, int) and dimension != size:
            raise InvalidFeedError(
                f"input {quoted(name)} has size {size} in dimension {axis} (shape {actual}),"
                f" expected {dimension} (shape {quoted(expected)})",
                name=name,
                expected=expected,
                actual=actual,
            )


def _wrong(name: str, expected: str, actual: str) -> InvalidFeedError:
    return InvalidFeedError(
        f"input {quoted(name)} is {actual}, expected {expected}",
        name=name,
        expected=expected,
        actual=actual,
    )
