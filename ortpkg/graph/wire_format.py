"""Cuts the weights out of a serialized ModelProto, so that reading it costs as much as its graph.

Protobuf copies every byte field that it parses. A model file is mostly the ``raw_data`` of its main
graph's initializers; here these are located in the encoding and not copied, and only the rest is
passed to protobuf.

Source: protobuf's wire format (https://protobuf.dev/programming-guides/encoding/) and onnx.proto's
field numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ortpkg.graph.load_control import poll_load

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
#: Number of fields between two checks of the session's limits.
_POLLED_FIELDS = 4096
#: Memory kept for each weight that is cut; bytes that a system reads of a file around one byte.
_CUT_NBYTES, _READ_AROUND_NBYTES = 600, 1 << 16
#: Bytes to be copied between two charges.
_CHARGED_NBYTES = 1 << 20

#: Smaller ``raw_data`` stays in the message: shape inference and constant folding need it.
SMALLEST_CUT_NBYTES = 1024


class WireFormatError(ValueError):
    """The bytes are no protobuf message."""


class CutModel(NamedTuple):
    """A model message without its big weights.

    Attributes:
        pieces: the serialized ModelProto without the ``raw_data`` that was cut; most of them lie in
            the original bytes.
        spans: index into ``graph.initializer`` → (offset, length) of its ``raw_data`` in the
            original bytes.
    """

    pieces: list[bytes | memoryview]
    spans: dict[int, tuple[int, int]]

    @property
    def nbytes(self) -> int:
        """The length of the message."""
        return sum(map(len, self.pieces))

    def message(self) -> bytes:
        """Return the message in one piece, a copy."""
        return b"".join(self.pieces)


def cut_weights(data: memoryview, *, smallest_nbytes: int = SMALLEST_CUT_NBYTES) -> CutModel:
    """Split a serialized ModelProto into its message and the ranges of its weights.

    Raises:
        WireFormatError: if ``data`` is not a protobuf message, down to the fields looked into.
    """
    cut = CutModel(pieces=[], spans={})
    kept_from = seen_initializers = 0
    for number, start, body, end in fields(data, 0, len(data)):
        if number != _MODEL_GRAPH or body < 0:
            continue
        graph, seen_initializers = _cut_graph(
            data, body, end, cut, seen_initializers, smallest_nbytes
        )
        if graph:
            tag = length_delimited_tag(_MODEL_GRAPH) + varint(sum(map(len, graph)))
            cut.pieces.extend((data[kept_from:start], tag, *graph))
            kept_from = end
    cut.pieces.append(data[kept_from:])
    return cut


def _cut_graph(
    data: memoryview, start: int, stop: int, cut: CutModel, index: int, smallest_nbytes: int
) -> tuple[list[bytes | memoryview], int]:
    """Return the graph's bytes without big weights, and the number of initializers so far.

    There are no pieces if it has no big weights.
    """
    pieces: list[bytes | memoryview] = []
    kept_from = start
    for number, field_start, body, end in fields(data, start, stop):
        if number != _GRAPH_INITIALIZER or body < 0:
            continue
        if end - body >= smallest_nbytes:
            tensor, span = _cut_tensor(data, body, end, smallest_nbytes)
            if span is not None:
                poll_load(_CUT_NBYTES + min(span[1], _READ_AROUND_NBYTES))
                cut.spans[index] = span
                if kept_from < field_start:
                    pieces.append(data[kept_from:field_start])
                tag = length_delimited_tag(_GRAPH_INITIALIZER)
                pieces.append(tag + varint(len(tensor)) + tensor)
                kept_from = end
        index += 1
    if pieces:
        pieces.append(data[kept_from:stop])
    return pieces, index


def _cut_tensor(
    data: memoryview, start: int, stop: int, smallest_nbytes: int
) -> tuple[bytes, tuple[int, int] | None]:
    """Return the tensor's bytes without ``raw_data``, and the range of that.

    None instead of the range if it is too small to cut.
    """
    raw: tuple[int, int] | None = None
    rest, uncharged_nbytes = bytearray(), 0
    for number, field_start, body, end in fields(data, start, stop):
        if number == _TENSOR_RAW_DATA and body >= 0:
            raw = (body, end - body)
            continue
        uncharged_nbytes += end - field_start
        if uncharged_nbytes > _CHARGED_NBYTES:
            poll_load(2 * uncharged_nbytes)
            uncharged_nbytes = 0
        rest += data[field_start:end]
    if raw is None or raw[1] < smallest_nbytes:
        return b"", None
    return bytes(rest), raw


def fields(data: memoryview, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, its start, start of its body or -1, end) of each field, in order.

    The start of the body is -1 if the field's wire type has no length.

    Raises:
        WireFormatError: if [start, stop) is not a protobuf message.
    """
    position = start
    until_poll = _POLLED_FIELDS
    while position < stop:
        until_poll -= 1
        if not until_poll:
            poll_load()
            until_poll = _POLLED_FIELDS
        field_start = position
        # Keys and lengths of one byte, which nearly all are, are read here: a call would cost more
        # than the rest.
        key = data[position]
        position += 1
        if key >= 0x80:
            key, position = _read_varint(data, field_start, stop)
        number, wire_type = key >> 3, key & 7
        body = -1
        if wire_type == _LENGTH_DELIMITED:
            if position < stop and (length := data[position]) < 0x80:
                body = position + 1
            else:
                length, body = _read_varint(data, position, stop)
            position = body + length
        elif wire_type == _VARINT:
            _, position = _read_varint(data, position, stop)
        elif wire_type == _FIXED64:
            position += 8
        elif wire_type == _FIXED32:
            position += 4
        else:
            raise WireFormatError(f"wire type {wire_type} at byte {field_start}")
        if position > stop:
            raise WireFormatError(f"a field at byte {field_start} ends past the end of its message")
        if number == 0:
            raise WireFormatError(f"field number 0 at byte {field_start}")
        yield number, field_start, body, position


def varint_at(data: memoryview, field_start: int, stop: int) -> int:
    """Return the number in a field of wire type 0 that starts at ``field_start``.

    Raises:
        WireFormatError: for another type.
    """
    key, position = _read_varint(data, field_start, stop)
    if key & 7 != _VARINT:
        raise WireFormatError(f"the field at byte {field_start} is no number")
    return _read_varint(data, position, stop)[0]


def _read_varint(data: memoryview, position: int, stop: int) -> tuple[int, int]:
    value = shift = 0
    for offset in range(position, min(position + _LONGEST_VARINT, stop)):
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset + 1
        shift += 7
    raise WireFormatError(f"a number that does not end at byte {position}")


def length_delimited_tag(number: int) -> bytes:
    """Return the key in front of field ``number``, a text, some bytes or a message."""
    return varint(number << 3 | _LENGTH_DELIMITED)


def varint(value: int) -> bytes:
    """Return a number that is not negative, as protobuf encodes it."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
