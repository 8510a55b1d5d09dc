"""Configuration files, found and read: the user's own, and the nearest project's.

A project's file is ``ortpkg.toml``, or ``[tool.ortpkg]`` in ``pyproject.toml``. Files inside of a
package are passed over: a package comes from a stranger.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortpkg.documents.toml_documents import read_toml
from ortpkg.errors import UsageError, quoted
from ortpkg.host.directories import CONFIG_ENVIRONMENT, config_directory
from ortpkg.package.formats.enclosing_package import enclosing_package

PROJECT_FILE, _PYPROJECT = "ortpkg.toml", "pyproject.toml"
#: Stands in every file with a table ``tool.ortpkg``, however it is written but for escapes in keys:
#: ``[tool.ortpkg]``, ``tool . "ortpkg".policy``, or a table ``[tool]`` or ``tool =`` that may hold
#: it. To read the settings of many other tools takes longer than to select.
_TABLE = re.compile(rb"""tool["' \t.]*+(?:ortpkg|[]=])""")


def user_config_file() -> Path:
    """The user's own file, in ``ORTPKG_CONFIG_DIR`` or the platform's directory for configuration.

    It need not exist.

    UsageError where that variable names something that is no folder.
    """
    chosen = os.environ.get(CONFIG_ENVIRONMENT)
    if chosen and os.path.exists(chosen) and not os.path.isdir(chosen):  # noqa: PTH110, PTH112 - Path's may raise
        raise UsageError(
            f"{CONFIG_ENVIRONMENT} is {quoted(chosen)}; the path of a folder was expected"
        )
    return config_directory() / PROJECT_FILE


def project_table(folder: Path | None = None) -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest project file that is about ortpkg, and what it says.

    A package's own folders are passed over. UsageError where the file cannot be read.
    """
    try:
        start = folder or Path.cwd()
    except OSError:  # the current folder has been deleted
        return None
    for place in (start, *start.parents):
        own, pyproject = place / PROJECT_FILE, place / _PYPROJECT
        if not (os.path.isfile(own) or os.path.isfile(pyproject)):  # noqa: PTH113 - Path.is_file may raise
            continue
        if own == user_config_file() or enclosing_package(place) is not None:
            continue
        if (table := toml_document(own)) is not None:
            return own, table
        tools = (toml_document(pyproject, mention=_TABLE) or {}).get("tool")
        if isinstance(tools, dict) and isinstance(tools.get("ortpkg"), dict):
            return pyproject, tools["ortpkg"]
    return None


def toml_document(file: Path, mention: re.Pattern[bytes] | None = None) -> dict[str, Any] | None:
    """What the file says; None where there is none, or nothing in it matches ``mention``.

    UsageError where it cannot be read.
    """
    if not os.path.isfile(file):  # noqa: PTH113 - as above
        return None
    return read_toml(file, called=quoted(file), mention=mention)
