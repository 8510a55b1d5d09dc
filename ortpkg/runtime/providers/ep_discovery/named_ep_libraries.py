"""Lists the EP libraries that the user names: by ``ortpkg ep add``, a setting, or a variable.

The variable replaces the setting, as everywhere; added libraries count beside either. Python
programs read all three, since these describe the machine, not a wish. A library is native code;
naming it is the user's consent to run it (docs/trust.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.documents.json_documents import dump_document, read_document
from ortpkg.foundations.documents.toml_documents import read_toml
from ortpkg.foundations.errors import OrtpkgError, PackageFormatError, UsageError, quoted
from ortpkg.foundations.host.directories import config_directory
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import EP_LIBRARIES_VARIABLE

#: Setting in the user's ``ortpkg.toml``: the variable's paths as a list.
EP_LIBRARIES_SETTING = "ep_libraries"
_SETTINGS_FILE = "ortpkg.toml"
_ADDED_FILE = "ep_libraries.json"
_MENTION = re.compile(rb"ep_libraries")
_MOST_ENTRIES = 64
_NAMED = re.compile(r"([\w.+-]{1,128})=(.+)", re.DOTALL)


class NamedLibrary(NamedTuple):
    """A library, or a folder with libraries, that the user names.

    Attributes:
        path: absolute path.
        ep_names: names of its EPs; () if the library itself is to state them.
        source: variable, file or command that names it, for messages.
    """

    path: str
    ep_names: tuple[str, ...] = ()
    source: str = ""


class NamedLibraries(NamedTuple):
    """Libraries that the user names, and a note for each source that cannot be read."""

    libraries: tuple[NamedLibrary, ...]
    notes: tuple[str, ...] = ()


def added_file() -> Path:
    """Return the path of the file in which ``ortpkg ep add`` keeps what it added."""
    return config_directory() / _ADDED_FILE


def named_libraries() -> NamedLibraries:
    """Return the libraries of the variable, the setting and ``ortpkg ep add``, in this order."""
    libraries: dict[str, NamedLibrary] = {}
    notes: list[str] = []
    for read in (_of_variable, _of_setting, added_libraries):
        try:
            for library in read():
                libraries.setdefault(library.path, library)
        except OrtpkgError as error:
            notes.append(str(error))
    return NamedLibraries(tuple(libraries.values())[:_MOST_ENTRIES], tuple(notes))


def parse_entry(text: str, source: str, folder: str = "") -> NamedLibrary:
    """Parse ``PATH`` or ``NAME=PATH``.

    Args:
        text: the entry.
        source: variable, file or command that it stands in, for messages.
        folder: relative paths start here; default: the current folder.

    Raises:
        UsageError: the text has no path.
    """
    match = _NAMED.fullmatch(text)
    names = (match[1],) if match else ()
    path = match[2] if match else text
    if not path.strip() or not path.isprintable():
        raise UsageError(f"{source}: {quoted(text)} is no path of a library, nor NAME=PATH")
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path's raises without a home
    return NamedLibrary(os.path.abspath(os.path.join(folder, expanded)), names, source)  # noqa: PTH100, PTH118


def verify_entry(text: str, source: str) -> None:
    """Raise UsageError if the path of an entry does not exist."""
    path = parse_entry(text, source, str(config_directory())).path
    if not os.path.exists(path):  # noqa: PTH110 - Path's may raise
        raise UsageError(f"{source} names {quoted(path)}, which is not there")


def _setting_entries(value: object) -> tuple[str, ...] | None:
    """Return the entries of the setting, a list of texts or one text; None for anything else."""
    entries = [value] if isinstance(value, str) else value
    if not isinstance(entries, list) or len(entries) > _MOST_ENTRIES:
        return None
    if not all(isinstance(entry, str) and entry for entry in entries):
        return None
    return tuple(entries)


def _of_variable() -> list[NamedLibrary]:
    texts = os.environ.get(EP_LIBRARIES_VARIABLE, "").split(os.pathsep)
    return [parse_entry(text, EP_LIBRARIES_VARIABLE) for text in texts if text.strip()]


def _of_setting() -> list[NamedLibrary]:
    file = config_directory() / _SETTINGS_FILE
    if os.environ.get(EP_LIBRARIES_VARIABLE) or not os.path.isfile(file):  # noqa: PTH113 - Path's may raise
        return []
    table = read_toml(file, name=quoted(file), mention=_MENTION) or {}
    if EP_LIBRARIES_SETTING not in table:
        return []
    entries = _setting_entries(table[EP_LIBRARIES_SETTING])
    if entries is None:
        raise UsageError(
            f"{quoted(file)}: {EP_LIBRARIES_SETTING} is {quoted(table[EP_LIBRARIES_SETTING])};"
            " a list of paths was expected"
        )
    return [parse_entry(entry, str(file), str(file.parent)) for entry in entries]


def added_libraries() -> list[NamedLibrary]:
    """Return the libraries that ``ortpkg ep add`` added; UsageError if its file is damaged."""
    file = added_file()
    if not os.path.isfile(file):  # noqa: PTH113 - as above
        return []
    try:
        document = read_document(file, document=_ADDED_FILE)
    except PackageFormatError as error:
        raise UsageError(
            f"{quoted(file)} {error.findings[0].message}; delete it, and add the libraries again"
        ) from error
    entries = document.get("libraries")
    libraries = [_added(entry) for entry in entries] if isinstance(entries, list) else [None]
    if None in libraries or len(libraries) > _MOST_ENTRIES:
        raise UsageError(
            f"{quoted(file)} is none that ortpkg ep add wrote; delete it, and add the libraries"
            " again"
        )
    return [library for library in libraries if library is not None]


def _added(entry: Any) -> NamedLibrary | None:
    names = entry.get("ep_names") if isinstance(entry, dict) else None
    path = entry.get("path") if isinstance(entry, dict) else None
    if not isinstance(path, str) or not os.path.isabs(path) or not isinstance(names, list):  # noqa: PTH117
        return None
    if not all(isinstance(name, str) for name in names):
        return None
    return NamedLibrary(path, tuple(names), "ortpkg ep add")


def write_added(libraries: Sequence[NamedLibrary]) -> None:
    """Write the file of added libraries; UsageError if that fails or they are too many."""
    if len(libraries) > _MOST_ENTRIES:
        raise UsageError(f"at most {_MOST_ENTRIES} libraries can be added; remove some first")
    entries = [{"path": library.path, "ep_names": list(library.ep_names)} for library in libraries]
    content = dump_document({"schema_version": 1, "libraries": entries})
    file = added_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, lambda opened: opened.write(content))
    except OSError as error:
        raise UsageError(f"{quoted(file)} cannot be written: {error.strerror}") from error
