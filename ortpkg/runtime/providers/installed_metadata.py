"""Reads folders' names for installed distributions, faster than ``importlib.metadata``.

Source: "Recording installed projects" of the Python Packaging User Guide: a distribution is a
folder ``<name>-<version>.dist-info`` beside its modules. If one may be recorded in another way,
this module says that it cannot tell, and its caller goes to ``importlib.metadata``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from importlib.machinery import PathFinder
from typing import NamedTuple

_RECORDED = ".dist-info"
_EGG = ".egg"
_OTHER_FORMS = (".egg-info", _EGG)


class _UnknownFormError(Exception):
    """A distribution may be recorded in a way that is not understood here."""


def recorded_versions(names: Collection[str]) -> dict[str, str] | None:
    """Return the versions of those of the distributions ``names`` that are installed.

    None if the folders' names do not tell.
    """
    wanted = {normal_name(name): name for name in names}
    versions: dict[str, str] = {}
    try:
        for folder, entry in _records():
            stem, extension = os.path.splitext(entry)  # noqa: PTH122 - strings: there are hundreds
            project, _, version = stem.partition("-")
            name = wanted.get(normal_name(project))
            if name is None or name in versions:  # as for modules, the first on the path counts
                continue
            if (
                extension != _RECORDED
                or not version
                or not os.path.isfile(os.path.join(folder, entry, "METADATA"))  # noqa: PTH113, PTH118
            ):
                return None
            versions[name] = version
    except _UnknownFormError:
        return None
    return versions


class InstalledRecord(NamedTuple):
    """Record of one installed distribution.

    Attributes:
        name: its normalized name.
        version: its version.
        folder: folder of its modules.
        entry: name of its metadata folder in ``folder``; "" if it is recorded in another way.
        changed_ns: time of the metadata folder's last change; installing again changes it.
    """

    name: str
    version: str
    folder: str
    entry: str
    changed_ns: int

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return the bytes of a metadata file; None if it is missing or larger than the limit."""
        if not self.entry:
            return None
        try:
            with open(os.path.join(self.folder, self.entry, name), "rb") as file:  # noqa: PTH118, PTH123
                content = file.read(most_bytes + 1)
        except OSError:
            return None
        return content if len(content) <= most_bytes else None


def recorded_distributions() -> tuple[InstalledRecord, ...]:
    """Return every installed distribution, in the order of Python's path.

    Falls back on ``importlib.metadata`` for records in another form.
    """
    try:
        return tuple(_distributions_of(_records()))
    except _UnknownFormError:
        return tuple(_distributions_by_metadata())


def _distributions_of(records: Iterable[tuple[str, str]]) -> Iterator[InstalledRecord]:
    for parent, entry in records:
        project, _, version = entry.removesuffix(_RECORDED).partition("-")
        if not entry.endswith(_RECORDED) or not version:
            continue
        folder = os.path.abspath(parent or ".")  # noqa: PTH100 - as above
        try:
            changed_ns = os.stat(os.path.join(folder, entry)).st_mtime_ns  # noqa: PTH116, PTH118
        except OSError:
            continue
        yield InstalledRecord(normal_name(project), version, folder, entry, changed_ns)


def _distributions_by_metadata() -> Iterator[InstalledRecord]:
    from importlib import metadata  # 15 ms; only where folder names do not tell

    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        folder = os.path.abspath(str(distribution.locate_file("")))  # noqa: PTH100
        if name and os.path.isdir(folder):  # noqa: PTH112 - nothing is loaded from an archive
            entry = f"{re.sub(r'[-_.]+', '_', name)}-{distribution.version}{_RECORDED}"
            is_there = os.path.isdir(os.path.join(folder, entry))  # noqa: PTH112, PTH118
            yield from (
                _distributions_of([(folder, entry)])
                if is_there
                else [InstalledRecord(normal_name(name), distribution.version, folder, "", 0)]
            )


def may_have_entry_points(group: str) -> bool:
    """Return False if certainly no installed distribution has an entry point of a group.

    Nearly no environment has one, and ``importlib.metadata.entry_points`` parses the metadata of
    all distributions.
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
    """Yield (folder, name) of everything on Python's path that may record a distribution."""
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


def normal_name(name: str) -> str:
    """Return the name as package indexes compare it ("Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()
