"""Runs in a child process: whether a plug-in can be imported and gives a factory. Whatever it does stays in there."""

from __future__ import annotations

import importlib.metadata
from typing import Any


def check_plugin(group: str, name: str, value: str) -> dict[str, Any]:
    """``{"is_factory", "ep_name", "backend", "type"}`` of what the entry point gives."""
    from ortpkg.providers.ep_factory import EpFactory  # as a plug-in does

    entry_point = importlib.metadata.EntryPoint(name=name, value=value, group=group)
    factory = entry_point.load()()
    return {
        "is_factory": isinstance(factory, EpFactory),
        "ep_name": str(getattr(factory, "ep_name", "")),
        "backend": str(getattr(factory, "backend", "")),
        "type": type(factory).__name__,
    }
