"""Counts the memory of a serialized model once parsed, from its encoding, before it is parsed.

The number of bytes alone is not enough: a text of a megabyte takes as much when parsed, an empty
attribute of two bytes takes 200. So each message, text and list counts, by the sizes of its fields.

Source: onnx.proto as the installed onnx package has it, and the layout of messages in protobuf's
C parser (upb): a structure with a slot for each field, arrays that double as they grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]

from ortpkg.graph.load_control import load_control, poll_load
from ortpkg.graph.wire_format import WireFormatError, fields

#: Copies of each byte of a text, a weight or a name: in the file, in the message, in the parsed
#: message, and in the value here.
NBYTES_PER_BYTE = 4
#: The most memory that one byte may lead to: half an empty AttributeProto in a list.
_MOST_NBYTES_PER_BYTE = 128
#: Memory that needs no count, plus this fraction of the limit: most models are so small that there
#: is no need to look into them.
_UNCOUNTED_NBYTES, _UNCOUNTED_PART = 16 << 20, 0.1
#: Measured on upb, rounded up: a message beyond its fields, a pointer in an array that doubles, a
#: text (its end, and the object made of it), a text in an array.
_MESSAGE_NBYTES, _POINTER_NBYTES, _TEXT_NBYTES, _LISTED_TEXT_NBYTES = 32, 24, 80, 128
#: Arrays of numbers are copied as they grow, and once more into an array or a tuple.
_COPIES_OF_NUMBERS = 4
#: A text with other letters than ASCII's takes up to four bytes for each letter, and as much once
#: more while it grows; short ones are counted as if they had none.
_SHORT_TEXT_NBYTES, _WIDE_NBYTES_PER_BYTE = 32, 4
#: Bounds of the cache of short messages: types and attributes are often equal, byte for byte.
_LONGEST_KNOWN_NBYTES, _MOST_KNOWN = 64, 1 << 10
#: Memory that is charged at a time, and bytes that are searched at a time.
_CHARGED_NBYTES, _PIECE_NBYTES = 1 << 20, 1 << 16
_DEEPEST = 100  # protobuf's own bound
_NOT_LAST = bytes(range(0x80, 0x100))

#: Kinds of fields by how much room they take.
_TEXTS = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
_FIXED_NUMBERS = frozenset({FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE})
_WIDE_FIELDS = frozenset(
    {
        FieldDescriptor.TYPE_MESSAGE,
        FieldDescriptor.TYPE_DOUBLE,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
    }
)


@dataclass(slots=True)
class _Message:
    """A kind of message: its fields by number, and the memory of short messages seen before."""

    fields: dict[int, _Field] = field(default_factory=dict)
    known_nbytes: dict[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """A field of a message.

    Attributes:
        nbytes: memory per occurrence in the message, beyond its bytes.
        message: the kind of message in it, if any.
        is_text: True if its letters may take more than its bytes.
        packed_nbytes: memory per number, if it may contain many in a row.
    """

    nbytes: int
    message: _Message | None = None
    is_text: bool = False
    packed_nbytes: int = 0


_UNKNOWN_FIELD = _Field(nbytes=_TEXT_NBYTES)


def charge_message(data: bytes) -> None:
    """Charge the memory of a serialized ModelProto when parsed, beyond NBYTES_PER_BYTE per byte.

    Without a memory limit, nothing is looked into.

    Raises:
        LimitExceededError: as soon as it exceeds the memory limit of the session that is being
            created.
        WireFormatError: if ``data`` is no protobuf message.
    """
    control = load_control()
    if control is None or control.memory_limit_nbytes is None:
        return
    uncounted_nbytes = _UNCOUNTED_NBYTES + _UNCOUNTED_PART * control.memory_limit_nbytes
    if _MOST_NBYTES_PER_BYTE * len(data) > uncounted_nbytes:
        poll_load(_Count(data).uncharged_nbytes(_model_message(), 0, len(data)))


class _Count:
    """Goes through a serialized message, and charges its memory from time to time."""

    def __init__(self, data: bytes) -> None:
        self._data, self._view = data, memoryview(data)

    def uncharged_nbytes(self, message: _Message, start: int, stop: int, depth: int = 0) -> int:
        """Return the memory of the message in [start, stop) that was not yet charged."""
        if depth > _DEEPEST:
            raise WireFormatError(f"messages are nested deeper than {_DEEPEST} levels")
        total = 0
        of_number = message.fields
        for number, _, body, end in fields(self._view, start, stop):
            kind = of_number.get(number, _UNKNOWN_FIELD)
            total += kind.nbytes
            if body < 0:
                continue
            if kind.message is not None:
                total += self._nested_nbytes(kind.message, body, end, depth + 1)
            elif kind.packed_nbytes:
                total += kind.packed_nbytes * self._count_numbers(body, end)
            elif kind.is_text and end - body >= _SHORT_TEXT_NBYTES:
                total += 0 if self._is_ascii(body, end) else _WIDE_NBYTES_PER_BYTE * (end - body)
            if total > _CHARGED_NBYTES:
                poll_load(total)
                total = 0
        return total

    def _nested_nbytes(self, message: _Message, start: int, stop: int, depth: int) -> int:
        if stop - start > _LONGEST_KNOWN_NBYTES:
            return self.uncharged_nbytes(message, start, stop, depth)
        piece = self._data[start:stop]
        nbytes = message.known_nbytes.get(piece)
        if nbytes is None:
            nbytes = self.uncharged_nbytes(message, start, stop, depth)
            if len(message.known_nbytes) >= _MOST_KNOWN:
                message.known_nbytes.clear()
            message.known_nbytes[piece] = nbytes
        return nbytes

    def _count_numbers(self, start: int, stop: int) -> int:
        """Count numbers in a row: each ends at a byte without the continuation bit."""
        return sum(len(piece.translate(None, _NOT_LAST)) for piece in self._pieces(start, stop))

    def _is_ascii(self, start: int, stop: int) -> bool:
        return all(piece.isascii() for piece in self._pieces(start, stop))

    def _pieces(self, start: int, stop: int) -> Iterator[bytes]:
        for position in range(start, stop, _PIECE_NBYTES):
            yield self._data[position : min(position + _PIECE_NBYTES, stop)]


def _model_message() -> _Message:
    """Return the description of ModelProto, which contains those of all other messages."""
    made: dict[str, _Message] = {}
    described = [onnx.ModelProto.DESCRIPTOR]
    while described:
        descriptor = described.pop()
        message = made.setdefault(descriptor.full_name, _Message())
        for described_field in descriptor.fields:
            inner = described_field.message_type
            if inner is not None and inner.full_name not in made:
                made[inner.full_name] = _Message()
                described.append(inner)
            message.fields[described_field.number] = _field(
                described_field, inner and made[inner.full_name]
            )
    return made[onnx.ModelProto.DESCRIPTOR.full_name]


def _field(described: FieldDescriptor, message: _Message | None) -> _Field:
    if message is not None:
        slots = sum(map(_slot_nbytes, described.message_type.fields))
        return _Field(nbytes=_MESSAGE_NBYTES + slots + _POINTER_NBYTES, message=message)
    if described.type in _TEXTS:
        nbytes = _LISTED_TEXT_NBYTES if _is_list(described) else _TEXT_NBYTES
        return _Field(nbytes=nbytes, is_text=described.type == FieldDescriptor.TYPE_STRING)
    if not _is_list(described):
        return _Field(nbytes=0)
    nbytes = _COPIES_OF_NUMBERS * _slot_nbytes(described)
    return _Field(nbytes=nbytes, packed_nbytes=0 if described.type in _FIXED_NUMBERS else nbytes)


def _slot_nbytes(described: FieldDescriptor) -> int:
    if _is_list(described):
        return 8
    if described.type in _TEXTS:
        return 16
    return 8 if described.type in _WIDE_FIELDS else 4


def _is_list(described: FieldDescriptor) -> bool:
    return isinstance(described.default_value, list)  # the word of every release of protobuf
