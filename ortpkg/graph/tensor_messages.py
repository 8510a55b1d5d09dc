"""Finds every tensor in a serialized ModelProto, and replaces their messages.

No other byte changes.

A model whose weights move to another file differs from the original in the ``external_data`` of
some tensors only. Parsing and serializing the whole message would also reorder fields, and copy
weights that lie in the model.

Source: protobuf's wire format (https://protobuf.dev/programming-guides/encoding/) and onnx.proto's
field numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.wire_format import WireFormatError, fields, length_delimited_tag, varint

_MODEL, _TRAINING, _GRAPH, _FUNCTION, _NODE, _ATTRIBUTE, _SPARSE, _TENSOR = range(8)

#: Kind of message → number of a field that can lead to tensors → (kind of message in it, whether it
#: can be repeated).
_LEADING_FIELDS: Mapping[int, Mapping[int, tuple[int, bool]]] = {
    _MODEL: {7: (_GRAPH, False), 20: (_TRAINING, True), 25: (_FUNCTION, True)},
    _TRAINING: {1: (_GRAPH, False), 2: (_GRAPH, False)},
    _GRAPH: {1: (_NODE, True), 5: (_TENSOR, True), 15: (_SPARSE, True)},
    _FUNCTION: {7: (_NODE, True), 11: (_ATTRIBUTE, True)},
    _NODE: {5: (_ATTRIBUTE, True)},
    _ATTRIBUTE: {
        5: (_TENSOR, False),
        6: (_GRAPH, False),
        10: (_TENSOR, True),
        11: (_GRAPH, True),
        22: (_SPARSE, False),
        23: (_SPARSE, True),
    },
    _SPARSE: {1: (_TENSOR, False), 2: (_TENSOR, False)},
}
_TENSOR_RAW_DATA, _TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION = 9, 13, 14
_MOST_FIELDS = 20_000_000  # of a file of 2 GiB; more are an attempt to keep us busy

_DEFAULT_LIMITS = ModelLimits()

Piece = bytes | tuple[int, int]
"""New bytes, or the range [start, stop) of the original ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMessage:
    """One TensorProto within a model.

    Attributes:
        start, stop: the range of its bytes in the model.
        header: the message without ``raw_data``.
        raw: (offset, length) of ``raw_data`` in the model; None if it has none.
        is_initializer: True if it is in a graph's list of initializers.
    """

    start: int
    stop: int
    header: onnx.TensorProto
    raw: tuple[int, int] | None
    is_initializer: bool


@dataclass(slots=True)
class _Message:
    """A message that leads to tensors, or is one: the range of its field, and of its body."""

    kind: int
    number: int
    field_start: int
    start: int
    stop: int
    children: list[_Message] = field(default_factory=list)


class ModelMessage:
    """A serialized ModelProto as a list of its tensors.

    Attributes:
        data: the serialized message.
        tensors: in the order of the message: initializers, sparse ones as values and indices, and
            tensors in attributes, of all graphs, functions and training graphs.
    """

    def __init__(self, data: memoryview, *, limits: ModelLimits = _DEFAULT_LIMITS) -> None:
        """Read the structure.

        Raises:
            WireFormatError: if ``data`` is no such message, or ambiguous.
        """
        self.data = data
        self._limits = limits
        self._field_count = 0
        self.tensors: list[TensorMessage] = []
        self._root = _Message(_MODEL, 0, 0, 0, len(data))
        self._read(self._root, 0)

    def replaced(self, replacements: Mapping[int, bytes]) -> list[Piece]:
        """Return the model with other tensors: ``start`` of a tensor → its new message."""
        return _merged(self._compose(self._root, replacements) or [(0, len(self.data))])

    def _read(self, message: _Message, depth: int) -> None:
        if depth > self._limits.subgraph_depth:
            raise WireFormatError(
                f"graphs are nested deeper than {self._limits.subgraph_depth} levels"
            )
        leading = _LEADING_FIELDS[message.kind]
        numbers: set[int] = set()
        for number, field_start, body, end in fields(self.data, message.start, message.stop):
            self._count_field()
            if number not in leading or body < 0:
                continue
            kind, is_repeated = leading[number]
            if number in numbers and not is_repeated:
                # Protobuf would merge the two, so neither alone is right.
                raise WireFormatError(
                    f"field {number} at byte {field_start} stands twice where one was expected"
                )
            numbers.add(number)
            child = _Message(kind, number, field_start, body, end)
            if kind == _TENSOR:
                self.tensors.append(
                    self._read_tensor(body, end, is_initializer=message.kind == _GRAPH)
                )
                message.children.append(child)
                continue
            self._read(child, depth + (kind == _GRAPH and message.kind == _ATTRIBUTE))
            if child.children:
                message.children.append(child)

    def _read_tensor(self, start: int, stop: int, *, is_initializer: bool) -> TensorMessage:
        raw: tuple[int, int] | None = None
        header_fields: list[bytes] = []
        for number, field_start, body, end in fields(self.data, start, stop):
            self._count_field()
            if number == _TENSOR_RAW_DATA and body >= 0:
                raw = body, end - body  # the last one counts
            else:
                header_fields.append(bytes(self.data[field_start:end]))
        try:
            header = onnx.TensorProto.FromString(b"".join(header_fields))
        except DecodeError as error:
            raise WireFormatError(f"the tensor at byte {start} cannot be read") from error
        return TensorMessage(
            start=start, stop=stop, header=header, raw=raw, is_initializer=is_initializer
        )

    def _count_field(self) -> None:
        self._field_count += 1
        if self._field_count > _MOST_FIELDS:
            raise WireFormatError(f"more than {_MOST_FIELDS} fields")

    def _compose(self, message: _Message, replacements: Mapping[int, bytes]) -> list[Piece] | None:
        """Return the message's body; None if nothing in it is replaced."""
        if message.kind == _TENSOR:
            return [replacements[message.start]] if message.start in replacements else None
        pieces: list[Piece] = []
        kept_from = message.start
        for child in message.children:
            body = self._compose(child, replacements)
            if body is None:
                continue
            nbytes = sum(map(piece_nbytes, body))
            pieces += [
                (kept_from, child.field_start),
                length_delimited_tag(child.number) + varint(nbytes),
                *body,
            ]
            kept_from = child.stop
        if not pieces:
            return None
        return [*pieces, (kept_from, message.stop)]


def with_data_at(
    data: memoryview, tensor: TensorMessage, location: str, offset: int, nbytes: int
) -> bytes:
    """Return the tensor's message with its data in another file.

    A checksum of the former file is left out.
    """
    entries = (("location", location), ("offset", str(offset)), ("length", str(nbytes)))
    reference = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries:
        reference.external_data.add(key=key, value=value)
    return _with_reference(data, tensor, reference.SerializeToString())


def with_empty_data(data: memoryview, tensor: TensorMessage) -> bytes:
    """Return the message of a tensor without elements, with its (empty) data in the model."""
    return _with_reference(data, tensor, onnx.TensorProto(raw_data=b"").SerializeToString())


def _with_reference(data: memoryview, tensor: TensorMessage, reference: bytes) -> bytes:
    """Return the message with ``reference`` instead of the fields that locate its data."""
    dropped = (_TENSOR_RAW_DATA, _TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION)
    before: list[bytes] = []
    after: list[bytes] = []
    for number, field_start, _, end in fields(data, tensor.start, tensor.stop):
        if number not in dropped:
            (before if number < _TENSOR_EXTERNAL_DATA else after).append(
                bytes(data[field_start:end])
            )
    return b"".join([*before, reference, *after])


def piece_nbytes(piece: Piece) -> int:
    """Return the length of a piece."""
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Return the same bytes in as few pieces as possible, none of them empty."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if not piece_nbytes(piece):
            continue
        if isinstance(piece, bytes) and isinstance(last, bytes):
            merged[-1] = last + piece
        elif isinstance(piece, tuple) and isinstance(last, tuple) and last[1] == piece[0]:
            merged[-1] = last[0], piece[1]
        else:
            merged.append(piece)
    return merged
