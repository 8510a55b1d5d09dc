"""BSON, the part that containers of execution providers use: texts, numbers, flags, documents.

Everything comes from a stranger: lengths are checked against the bytes at hand before anything is
cut out, and depth and number of values are bounded. Source: the BSON specification, version 1.1
(https://bsonspec.org/spec.html), and the unsigned numbers that nlohmann::json writes in the place
of its time stamps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: A value that was read.
Value = str | int | float | bool | None | dict[str, "Value"]

MOST_DEPTH = 16
MOST_VALUES = 500_000

_DOUBLE, _TEXT, _DOCUMENT, _BOOLEAN, _NULL, _INT32, _UINT64, _INT64 = (
    0x01,
    0x02,
    0x03,
    0x08,
    0x0A,
    0x10,
    0x11,
    0x12,
)
_NUMBERS: Mapping[int, struct.Struct] = {
    _DOUBLE: struct.Struct("<d"),
    _INT32: struct.Struct("<i"),
    _UINT64: struct.Struct("<Q"),
    _INT64: struct.Struct("<q"),
}
_LENGTH = struct.Struct("<i")
#: Its length and the NUL at its end.
_EMPTY_DOCUMENT_NBYTES = _LENGTH.size + 1


class BsonError(ValueError):
    """The bytes are no document, or hold something that is not read here."""


def read_document(data: bytes | memoryview) -> dict[str, Value]:
    """Return the document that ``data`` consists of, to its last byte.

    Raises:
        BsonError: the data is anything else, a key comes twice, a value has a type that no
            container uses (arrays, binary data, ...), or there are more than MOST_DEPTH levels or
            MOST_VALUES values; the message says at which byte.
    """
    reader = _Reader(bytes(data))
    document = reader.document(len(reader.data), depth=1)
    if reader.at != len(reader.data):
        raise BsonError(
            f"after the document, which ends at byte {reader.at}, there are {len(data) - reader.at}"
            " more"
        )
    return document


def write_document(values: Mapping[str, Value]) -> bytes:
    """Return the bytes of a document with ``values``, in their order.

    Raises:
        ValueError: a key has a NUL.
        OverflowError: a number has more than 64 bits.
    """
    body = b"".join(_element(key, value) for key, value in values.items())
    return _LENGTH.pack(len(body) + _EMPTY_DOCUMENT_NBYTES) + body + b"\0"


def _element(key: str, value: Value) -> bytes:
    if "\0" in key:
        raise ValueError("a key of a document cannot have a NUL in it")
    kind, body = _encoded(value)
    return bytes([kind]) + key.encode() + b"\0" + body


def _encoded(value: Value) -> tuple[int, bytes]:
    if isinstance(value, Mapping):
        return _DOCUMENT, write_document(value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return _TEXT, _LENGTH.pack(len(text)) + text
    if value is None:
        return _NULL, b""
    if isinstance(value, bool):
        return _BOOLEAN, bytes([value])
    if isinstance(value, float):
        return _DOUBLE, _NUMBERS[_DOUBLE].pack(value)
    return _INT64, value.to_bytes(_NUMBERS[_INT64].size, "little", signed=True)


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0
    value_count: int = 0

    def document(self, stop: int, depth: int) -> dict[str, Value]:
        """Return the document that begins here and ends at ``stop`` or before."""
        if depth > MOST_DEPTH:
            raise self._wrong(f"more than {MOST_DEPTH} documents inside each other")
        start = self.at
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size, stop, "the length of a document"))
        if not _EMPTY_DOCUMENT_NBYTES <= length <= stop - start:
            raise BsonError(
                f"at byte {start}: a document of {length} bytes, of {stop - start} that are left"
            )
        end = start + length - 1
        values: dict[str, Value] = {}
        while self.at < end:
            kind = self._take(1, end, "a type")[0]
            key = self._key(end)
            if key in values:
                raise self._wrong(f"the key {key!r} comes twice")
            values[key] = self._value(kind, end, depth)
        if self._take(1, end + 1, "the end of a document") != b"\0":
            raise self._wrong("a document does not end where its length says")
        return values

    def _value(self, kind: int, stop: int, depth: int) -> Value:
        self.value_count += 1
        if self.value_count > MOST_VALUES:
            raise self._wrong(f"more than {MOST_VALUES} values")
        number = _NUMBERS.get(kind)
        if number is not None:
            value: int | float = number.unpack(self._take(number.size, stop, "a number"))[0]
            return value
        if kind == _DOCUMENT:
            return self.document(stop, depth + 1)
        read = _READERS.get(kind)
        if read is None:
            raise self._wrong(f"values of type 0x{kind:02x} are not read")
        return read(self, stop)

    def text(self, stop: int) -> str:
        """Return a text: its length, its bytes, a NUL; none of it reaches past ``stop``."""
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size, stop, "the length of a text"))
        if length < 1:
            raise self._wrong(f"a text of {length} bytes; it has at least the NUL at its end")
        encoded = self._take(length, stop, "a text")
        if encoded[-1]:
            raise self._wrong("a text does not end with a NUL")
        return self._decoded(encoded[:-1])

    def boolean(self, stop: int) -> bool:
        """Return a flag: one byte, 0 or 1, before ``stop``."""
        value = self._take(1, stop, "a flag")[0]
        if value > 1:
            raise self._wrong(f"a flag is 0 or 1, not {value}")
        return value == 1

    def _key(self, stop: int) -> str:
        end = self.data.find(b"\0", self.at, stop)
        if end < 0:
            raise self._wrong("a key does not end with a NUL")
        encoded, self.at = self.data[self.at : end], end + 1
        return self._decoded(encoded)

    def _decoded(self, encoded: bytes) -> str:
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._wrong("a text is not UTF-8") from error

    def _take(self, nbytes: int, stop: int, what: str) -> bytes:
        if nbytes > stop - self.at:
            raise self._wrong(f"it ends within {what}")
        chunk = self.data[self.at : self.at + nbytes]
        self.at += nbytes
        return chunk

    def _wrong(self, what: str) -> BsonError:
        return BsonError(f"at byte {self.at}: {what}")


_READERS: Mapping[int, Callable[[_Reader, int], Value]] = {
    _TEXT: _Reader.text,
    _BOOLEAN: _Reader.boolean,
    _NULL: lambda _reader, _stop: None,
}
