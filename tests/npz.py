"""Reads npz files in tests, and closes them: an open one is an error here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def arrays_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of an npz file by name."""
    with np.load(path, allow_pickle=False) as found:
        return dict(found)
