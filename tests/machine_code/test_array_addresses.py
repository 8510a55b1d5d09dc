"""The address of an array's elements is the one that numpy tells."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.machine_code import array_addresses
from ortpkg.compiler.machine_code.array_addresses import address_of

_BLOCK = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    "array",
    [
        _BLOCK,
        _BLOCK[1:, ::2],
        _BLOCK[::-1],
        np.array(3.0),
        np.empty((2, 0), np.int64),
        np.frombuffer(b"read only", np.uint8),
        np.arange(4).view(np.matrix),
    ],
)
def test_is_the_address_that_numpy_tells(array: np.ndarray) -> None:
    assert address_of(array) == array.__array_interface__["data"][0]


def test_an_interpreter_whose_objects_are_otherwise_is_asked_the_slow_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(array_addresses, "_address_by_field", id)
    assert array_addresses._choose()(_BLOCK) == _BLOCK.__array_interface__["data"][0]
