"""Imports the Python package of a wheel that brings a plug-in EP.

Some packages prepare their library when they are imported: that of TensorRT RTX makes links and
loads further libraries in order. So the process that registers the library imports its package
first.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from ortpkg.foundations.errors import quoted


def import_ep_package(module: str, folder: str) -> ModuleType:
    """Import the package ``module`` from ``folder``, which need not be on Python's path.

    Raises:
        ImportError: the folder has no such package.
        Exception: anything that the package's own code raises.
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
        locations = [] if spec is None else list(spec.submodule_search_locations or ())
        return any(os.path.samefile(location, folder) for location in locations)  # noqa: PTH121 - texts
    except (ImportError, ValueError, OSError):
        return False
