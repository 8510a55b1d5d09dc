"""Arrays and port numbers for OpenVINO's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.providers.native_library import Part


class _LentMemory:
    """Read-only memory that claims to be writable, since OpenVINO refuses other memory."""

    def __init__(self, part: Part) -> None:
        self._view = np.frombuffer(part, dtype=np.uint8)  # keeps the memory alive
        self.__array_interface__ = {
            **self._view.__array_interface__,
            "data": (self._view.ctypes.data, False),
        }


def lent_array(part: Part) -> np.ndarray[Any, Any]:
    """Return an array over a part, without a copy, that OpenVINO accepts. It must only read it."""
    return np.asarray(_LentMemory(part))


def port_of(ports: Sequence[Any], name: str) -> int:
    """Return the position of the port with an ONNX name.

    Raises:
        ValueError: no port has it, e.g. since OpenVINO made it a constant.
    """
    for position, port in enumerate(ports):
        if name in port.names:
            return position
    raise ValueError(f"OpenVINO does not know {quoted(name)} as an input or output of the model")
