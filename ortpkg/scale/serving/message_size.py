"""Memory that a gRPC message needs once it is parsed, estimated from its bytes before that.

Two bytes of a message can be an empty tensor, which needs ninety when parsed; a byte of packed
numbers needs eight. So a message of the largest size could need fifty times as much.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ortpkg.foundations.errors import InvalidRequestError, RequestTooLargeError
from ortpkg.foundations.quantities import nbytes_text

#: Most fields of all nested messages, including elements of BYTES tensors; each needs about 100
#: bytes.
MOST_FIELDS = 1 << 17
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10

#: Content of each field by its number: a message, or the parsed size of each of its varints. Other
#: fields are kept as they are.
_Known = Mapping[int, "_Known | int"]
_PARAMETER: _Known = {2: {}}
_CONTENTS: _Known = {1: 1, 2: 4, 3: 8, 4: 4, 5: 8}
_TENSOR: _Known = {3: 8, 4: _PARAMETER, 5: _CONTENTS}
_OUTPUT: _Known = {2: _PARAMETER}
_REQUEST: _Known = {4: _PARAMETER, 5: _TENSOR, 6: _OUTPUT}


def verify_message_size(message: bytes, most_nbytes: int, *, is_inference: bool) -> None:
    """Check that a request needs at most ``most_nbytes`` besides the memory of its fields.

    Args:
        message: Bytes of the message.
        most_nbytes: The limit.
        is_inference: True for a ModelInferRequest; others carry names.

    Raises:
        RequestTooLargeError: It needs more.
        InvalidRequestError: It is not a valid message.
    """
    if len(message) <= min(MOST_FIELDS, most_nbytes // 8):
        return  # small enough, whatever it contains
    if not is_inference:
        raise RequestTooLargeError(
            f"the request has {len(message)} bytes and no tensors", limit_nbytes=MOST_FIELDS
        )
    _Count(message, most_nbytes).add(0, len(message), _REQUEST)


class _Count:
    """Sizes found so far."""

    def __init__(self, message: bytes, most_nbytes: int) -> None:
        self._message, self._most_nbytes = message, most_nbytes
        self._fields = self._nbytes = 0

    def add(self, start: int, end: int, fields: _Known) -> None:
        """Count a message between two offsets."""
        offset = start
        while offset < end:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise RequestTooLargeError(
                    f"the message has more than {MOST_FIELDS} fields; raw_input_contents takes a"
                    " tensor in one",
                    limit_nbytes=self._most_nbytes,
                )
            key, offset = self._varint(offset, end)
            kind = key & 7
            if kind == _LENGTH_DELIMITED:
                length, offset = self._varint(offset, end)
                if length > end - offset:
                    raise _no_message()
                self._add_held(offset, offset + length, fields.get(key >> 3))
                offset += length
            elif kind == _VARINT:
                _, offset = self._varint(offset, end)
            elif kind in (_FIXED32, _FIXED64):
                offset += 4 if kind == _FIXED32 else 8
            else:
                raise _no_message()  # groups, which the protocol does not have

    def _add_held(self, start: int, end: int, held: _Known | int | None) -> None:
        if isinstance(held, int):
            packed = np.frombuffer(self._message, np.uint8, end - start, start)
            self._nbytes += int(np.count_nonzero(packed < 128)) * held
            if self._nbytes > self._most_nbytes:
                raise RequestTooLargeError(
                    "the numbers of the request take more than the"
                    f" {nbytes_text(self._most_nbytes)} that a request may have",
                    limit_nbytes=self._most_nbytes,
                )
        elif held is not None:
            self.add(start, end, held)

    def _varint(self, offset: int, end: int) -> tuple[int, int]:
        """Return the number at an offset, and the offset after it."""
        value = shift = 0
        message = self._message
        for at in range(offset, min(end, offset + _LONGEST_VARINT)):
            byte = message[at]
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at + 1
            shift += 7
        raise _no_message()


def _no_message() -> InvalidRequestError:
    return InvalidRequestError("the message is no such request")
