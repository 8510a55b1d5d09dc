"""Find and read configuration files: the user's own, and the nearest project's.

A project's file is ``ortpkg.toml``, or ``[tool.ortpkg]`` in ``pyproject.toml``. Files inside of a
package are ignored: a package may come from a stranger.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.toml_documents import read_toml
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.host.directories import CONFIG_ENVIRONMENT, config_directory
from ortpkg.package.formats.enclosing_package import enclosing_package

PROJECT_FILE, _PYPROJECT = "ortpkg.toml", "pyproject.toml"
#: Occurs in every file with a table ``tool.ortpkg``, in any spelling without escapes in keys:
#: ``[tool.ortpkg]``, ``tool . "ortpkg".policy``, or a table ``[tool]`` or ``tool =`` that may hold
#: it. Parsing the settings of many other tools takes longer than selecting.
_TABLE = re.compile(rb"""tool["' \t.]*+(?:ortpkg|[]=])""")


def user_config_file() -> Path:
    """Return the path to the user's own file, in ``ORTPKG_CONFIG_DIR`` or the platform's directory.

    The file need not exist.

    Raises:
        UsageError: that variable names something that is not a folder.
    """
    chosen = os.environ.get(CONFIG_ENVIRONMENT)
    if chosen and os.path.exists(chosen) and not os.path.isdir(chosen):  # noqa: PTH110, PTH112 - Path's may raise
        raise UsageError(
            f"{CONFIG_ENVIRONMENT} is {quoted(chosen)}; the path of a folder was expected"
        )
    return config_directory() / PROJECT_FILE


def project_table(folder: Path | None = None) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the nearest project file about ortpkg, and its content; None for none.

    A package's own folders are ignored.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        start = folder or Path.cwd()
    except OSError:  # the current folder has been deleted
        return None
    for parent in (start, *start.parents):
        project_file, pyproject = parent / PROJECT_FILE, parent / _PYPROJECT
        if not (os.path.isfile(project_file) or os.path.isfile(pyproject)):  # noqa: PTH113 - Path.is_file may raise
            continue
        if project_file == user_config_file() or enclosing_package(parent) is not None:
            continue
        if (table := toml_document(project_file)) is not None:
            return project_file, table
        tools = (toml_document(pyproject, mention=_TABLE) or {}).get("tool")
        if isinstance(tools, dict) and isinstance(tools.get("ortpkg"), dict):
            return pyproject, tools["ortpkg"]
    return None


def toml_document(file: Path, mention: re.Pattern[bytes] | None = None) -> dict[str, Any] | None:
    """Return the content of a file; None if it is missing or nothing matches ``mention``.

    Raises:
        UsageError: it cannot be read.
    """
    if not os.path.isfile(file):  # noqa: PTH113 - as above
        return None
    return read_toml(file, name=quoted(file), mention=mention)
