"""What a message of gRPC takes in memory once it is read, counted in its bytes before it is.

Two bytes of a message can be an empty tensor, which takes ninety when it is read; a byte of packed
numbers takes eight. A message that is as large as it may be would take fifty times that.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ortpkg.errors import InvalidRequestError, RequestTooLargeError
from ortpkg.quantities import nbytes_text

#: Fields of all messages in one, elements of BYTES tensors among them: each takes about 100 bytes.
MOST_FIELDS = 1 << 17
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10

#: Number of a field → what its bytes hold: a message, or the size that each of their varints has
#: when it is read. What is not here is kept as it comes.
_Known = Mapping[int, "_Known | int"]
_PARAMETER: _Known = {2: {}}
_CONTENTS: _Known = {1: 1, 2: 4, 3: 8, 4: 4, 5: 8}
_TENSOR: _Known = {3: 8, 4: _PARAMETER, 5: _CONTENTS}
_OUTPUT: _Known = {2: _PARAMETER}
_REQUEST: _Known = {4: _PARAMETER, 5: _TENSOR, 6: _OUTPUT}


def verify_message_size(message: bytes, most_nbytes: int, *, is_inference: bool) -> None:
    """That a request takes no more than ``most_nbytes`` and what its fields take.

    ``is_inference``: it is a ModelInferRequest; others carry names.

    Raises RequestTooLargeError where it takes more, InvalidRequestError for what is no message.
    """
    if len(message) <= min(MOST_FIELDS, most_nbytes // 8):
        return  # whatever is in it
    if not is_inference:
        raise RequestTooLargeError(
            f"the request has {len(message)} bytes and no tensors", limit_nbytes=MOST_FIELDS
        )
    _Count(message, most_nbytes).add(0, len(message), _REQUEST)


class _Count:
    """What was found so far."""

    def __init__(self, message: bytes, most_nbytes: int) -> None:
        self._message, self._most_nbytes = message, most_nbytes
        self._fields = self._nbytes = 0

    def add(self, start: int, end: int, known: _Known) -> None:
        """Counts what is between two places, which is a message."""
        place = start
        while place < end:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise RequestTooLargeError(
                    f"the message has more than {MOST_FIELDS} fields; raw_input_contents takes a"
                    " tensor in one",
                    limit_nbytes=self._most_nbytes,
                )
            key, place = self._varint(place, end)
            kind = key & 7
            if kind == _LENGTH_DELIMITED:
                length, place = self._varint(place, end)
                if length > end - place:
                    raise _no_message()
                self._add_held(place, place + length, known.get(key >> 3))
                place += length
            elif kind == _VARINT:
                _, place = self._varint(place, end)
            elif kind in (_FIXED32, _FIXED64):
                place += 4 if kind == _FIXED32 else 8
            else:
                raise _no_message()  # groups, which the protocol has not

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

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        """The number that is there, and the place after it."""
        value = shift = 0
        message = self._message
        for at in range(place, min(end, place + _LONGEST_VARINT)):
            byte = message[at]
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at + 1
            shift += 7
        raise _no_message()


def _no_message() -> InvalidRequestError:
    return InvalidRequestError("the message is no such request")
