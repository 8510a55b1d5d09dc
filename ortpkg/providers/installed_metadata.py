"""What folders' names tell of installed distributions, faster than ``importlib.metadata``.

Source: "Recording installed projects" of the Python Packaging User Guide: a distribution is a
folder ``<name>-<version>.dist-info`` beside its modules. Where one may be recorded in another way,
this module says that it cannot tell, and whoever asks goes to ``importlib.metadata``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from importlib.machinery import PathFinder

_RECORDED = ".dist-info"
_EGG = ".egg"
_OTHER_FORMS = (".egg-info", _EGG)


class _UnknownFormError(Exception):
    """A distribution may be recorded in a way that is not understood here."""


def recorded_versions(names: Collection[str]) -> dict[str, str] | None:
    """Those of the distributions ``names`` that are installed, with their versions.

    None where that cannot be told.
    """
    wanted = {_normal(name): name for name in names}
    found: dict[str, str] = {}
    try:
        for folder, entry in _records():
            stem, extension = os.path.splitext(entry)  # noqa: PTH122 - strings: there are hundreds
            project, _, version = stem.partition("-")
            name = wanted.get(_normal(project))
            if name is None or name in found:  # as for modules, the first on the path counts
                continue
            if (
                extension != _RECORDED
                or not version
                or not os.path.isfile(os.path.join(folder, entry, "METADATA"))  # noqa: PTH113, PTH118
            ):
                return None
            found[name] = version
    except _UnknownFormError:
        return None
    return found


def recorded_distributions(prefix: str) -> dict[str, tuple[str, str]] | None:
    """Installed distributions whose name begins with ``prefix``: name → version, modules' folder.

    None where that cannot be told.
    """
    found: dict[str, tuple[str, str]] = {}
    try:
        for folder, entry in _records():
            if not entry.endswith(_RECORDED):
                continue
            project, _, version = entry.removesuffix(_RECORDED).partition("-")
            name = _normal(project)
            if name.startswith(prefix) and version:
                found.setdefault(name, (version, folder or "."))
    except _UnknownFormError:
        return None
    return found


def may_have_entry_points(group: str) -> bool:
    """Whether any installed distribution may have an entry point of that group; False is certain.

    Nearly no environment has one, and ``importlib.metadata.entry_points`` parses what all
    distributions have.
    """
    text = group.encode()
    try:
        for folder, entry in _records():
            if entry.lower().endswith(_EGG):
                return True
            try:
                with open(os.path.join(folder, entry, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123
                    if text in file.read():
                        return True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return True
    except _UnknownFormError:
        return True
    return False


def _records() -> Iterator[tuple[str, str]]:
    """(folder, name) of everything on Python's path that may record a distribution."""
    if any(
        hasattr(finder, "find_distributions") and finder is not PathFinder
        for finder in sys.meta_path
    ):
        raise _UnknownFormError
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")  # noqa: PTH208 - as above
        except NotADirectoryError:  # an archive
            raise _UnknownFormError from None
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(_RECORDED) or entry.lower().endswith(_OTHER_FORMS):
                yield folder, entry


def _normal(name: str) -> str:
    """Names that differ in nothing but this are one name ("Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()
