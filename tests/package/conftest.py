"""Factories of small packages with models that nobody opens, and which need not be ONNX."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WritePackage = Callable[[dict[str, Any]], Path]


@pytest.fixture
def write_package(tmp_path: Path) -> WritePackage:
    """Writes files from {path: content}: text and bytes as they are, anything else as JSON.

    Returns the root.
    """

    def write(files: dict[str, Any]) -> Path:
        root = tmp_path / "p.ortpackage"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                text = content if isinstance(content, str) else json.dumps(content)
                path.write_text(text, encoding="utf-8")
        return root

    return write
