"""Warnings that point at the line of the caller's program, however deep in ortpkg they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn_caller(message: str) -> None:
    """Issue a UserWarning at the nearest line outside this package."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ortpkg":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
