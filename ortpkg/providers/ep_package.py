"""Imports the Python package of a wheel that brings a plug-in EP.

Importing prepares the library where it has to be prepared: the package of TensorRT RTX makes the
links that its libraries look for, loads them in their order, and then onnxruntime's own. Nothing
but its own code can know that, so the process that registers the library imports it, too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from ortpkg.errors import quoted


def import_ep_package(module: str, folder: str) -> ModuleType:
    """Return the package ``module`` that lies in ``folder``; it need not be on Python's path.

    Raises ImportError where it cannot be found there, and whatever importing it does.
    """
    loaded = sys.modules.get(module)
    if loaded is not None:
        return loaded
    if _is_on_path(module, folder):
        return importlib.import_module(module)
    spec = importlib.util.spec_from_file_location(
        module, Path(folder) / "__init__.py", submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {quoted(module)} in {quoted(folder)}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[module] = package  # as import does: the package may import itself
    try:
        spec.loader.exec_module(package)
    except BaseException:
        sys.modules.pop(module, None)
        raise
    return package


def _is_on_path(module: str, folder: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        return any(os.path.samefile(place, folder) for place in places)  # noqa: PTH121 - texts
    except (ImportError, ValueError, OSError):
        return False
