"""The execution provider of examples/tape_ep, offered without being installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortpkg.runtime.providers.plugins import register_plugin, unregister_plugin

_FOLDER = str(Path(__file__).resolve().parents[1] / "examples" / "tape_ep")


@contextmanager
def tape_plugin() -> Iterator[str]:
    """Has this process and its children know the provider; its name."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([_FOLDER, *([before] if before else [])])
    sys.path.insert(0, _FOLDER)
    try:
        plugin = register_plugin("tape_ep.factory:TapeFactory")
        yield plugin.name
        unregister_plugin(plugin.name)
    finally:
        sys.path.remove(_FOLDER)
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
