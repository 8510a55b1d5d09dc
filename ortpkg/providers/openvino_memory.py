"""Memory and ports as OpenVINO takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortpkg.errors import quoted
from ortpkg.providers.native_library import Part


class _LentMemory:
    """Memory that a library only reads, as if it were writable: OpenVINO takes nothing else."""

    def __init__(self, part: Part) -> None:
        self._view = np.frombuffer(part, dtype=np.uint8)  # keeps the memory alive
        self.__array_interface__ = {
            **self._view.__array_interface__,
            "data": (self._view.ctypes.data, False),
        }


def lent_array(part: Part) -> np.ndarray[Any, Any]:
    """A part as OpenVINO takes it, without a copy."""
    return np.asarray(_LentMemory(part))


def port_of(ports: Sequence[Any], name: str) -> int:
    """The position of the port with that ONNX name.

    ValueError where OpenVINO made it a constant.
    """
    for position, port in enumerate(ports):
        if name in port.names:
            return position
    raise ValueError(f"OpenVINO does not know {quoted(name)} as an input or output of the model")
