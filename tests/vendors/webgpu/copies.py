"""Notes the copies that ortpkg makes between the CPU's memory and the GPU's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ortpkg.runtime.providers.onnxruntime_memory import OnnxRuntimeMemory


def noted_copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each copy, between any two memories, until the end."""
    copies: list[str] = []
    for name in ("copy_from_host", "copy_to_host", "copy"):
        monkeypatch.setattr(OnnxRuntimeMemory, name, _noting(name, copies))
    return copies


def _noting(name: str, copies: list[str]) -> Callable[..., None]:
    original = getattr(OnnxRuntimeMemory, name)

    def noted(*arguments: object) -> None:
        copies.append(name)
        original(*arguments)

    return noted
