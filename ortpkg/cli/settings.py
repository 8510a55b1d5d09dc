"""A user's or project's wishes if a command line says nothing: policy, backend, trust, threads.

Of several sources, the first that says something counts: the command line, the environment, the
project's file (``ortpkg.toml``, or ``[tool.ortpkg]`` in ``pyproject.toml``, in the current folder
or the nearest above it), the user's own file, the default. What can harm is taken only from what is
the user's own, never from a project's file: a project may come from a stranger. Files inside a
package are not read at all, since a package does come from strangers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.project.configuration_files import project_table, toml_document, user_config_file
from ortpkg.variables import yes_or_no

#: Tables of a project's file that say which packages it wants (``ortpkg/project``).
_PACKAGE_TABLES = ("packages", "profiles")


class Settings(NamedTuple):
    """What holds where the command line says nothing; None: the command's own default.

    Attributes:
        policy, backend: as ``--policy`` and ``--backend`` of ``select`` and ``run``.
        trust: as ``--trust``.
        threads: as ``--threads``.
        ep_libraries: what the user names as libraries of EPs, as the providers read it.
        sources: name of a setting → where it comes from, for people.
    """

    policy: str | None = None
    backend: str | None = None
    trust: bool | None = None
    threads: int | None = None
    ep_libraries: tuple[str, ...] | None = None
    sources: Mapping[str, str] = EMPTY


class _Setting(NamedTuple):
    """How one setting is read. ``is_personal``: a project's file may not say it."""

    read: Callable[[object], Any]
    expected: str
    is_personal: bool = False


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and value.isprintable() else None


def _yes_or_no(value: object) -> bool | None:
    if isinstance(value, str):
        return yes_or_no(value)
    return value if isinstance(value, bool) else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        value = int(value)
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4096
        else None
    )


def _ep_libraries(value: object) -> tuple[str, ...] | None:
    """Texts of the setting; in the variable they stand with the separator of paths between."""
    if isinstance(value, str):
        value = [text for text in value.split(os.pathsep) if text.strip()]
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        return None
    return tuple(value)


_SETTINGS: dict[str, _Setting] = {
    "policy": _Setting(read=_text, expected='a text, such as "prefer-npu"'),
    "backend": _Setting(read=_text, expected='a text, such as "openvino"'),
    "trust": _Setting(read=_yes_or_no, expected="true or false", is_personal=True),
    "threads": _Setting(read=_count, expected="a number from 1 to 4096"),
    "ep_libraries": _Setting(
        read=_ep_libraries, expected="a list of paths, or of NAME=PATH", is_personal=True
    ),
}


def read_settings(folder: Path | None = None) -> Settings:
    """All settings, as they hold in ``folder`` (the current one if left out).

    UsageError, with the file and the key, for a file that is no TOML, a key that nobody knows, a
    value that is none, and a personal setting in a project's file.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, values in _all_sources(folder):
        for name, value in values.items():
            if name not in found:
                found[name], sources[name] = value, source
    return Settings(**found, sources=sources)


def project_config_file(folder: Path | None = None) -> Path | None:
    """The project's file that counts in ``folder`` (the current one if left out).

    None where there is none.

    UsageError where it cannot be read.
    """
    found = project_table(folder)
    return None if found is None else found[0]


def setting_variable(name: str) -> str:
    """The environment variable of a setting.

    >>> setting_variable("policy")
    'ORTPKG_POLICY'
    """
    return f"ORTPKG_{name.upper()}"


def _all_sources(folder: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, name → value), what counts more first."""
    for name, setting in _SETTINGS.items():
        variable = setting_variable(name)
        if stated := os.environ.get(variable):
            yield variable, {name: _value(name, setting, stated, variable)}
    project = project_table(folder)
    if project is not None:
        file, table = project
        yield str(file), _checked(table, file, is_project=True)
    own = user_config_file()
    if (said := toml_document(own)) is not None:
        yield str(own), _checked(said, own, is_project=False)


def _checked(table: Mapping[str, Any], file: Path, *, is_project: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        if is_project and name in _PACKAGE_TABLES:
            continue
        setting = _SETTINGS.get(name)
        if setting is None:
            known = ", ".join(_SETTINGS)
            raise UsageError(
                f"{quoted(file)}: there is no setting"
                f" {quoted(name)}{did_you_mean(name, _SETTINGS)}; {known}"
            )
        if is_project and setting.is_personal:
            raise UsageError(
                f"{quoted(file)}: {name} is not for a project's file, which may come from anybody: "
                f"write it to {quoted(user_config_file())}, or set {setting_variable(name)}"
            )
        values[name] = _value(name, setting, value, quoted(file))
    return values


def _value(name: str, setting: _Setting, stated: object, where: str) -> Any:
    value = setting.read(stated)
    if value is None:
        raise UsageError(f"{where}: {name} is {quoted(stated)}; {setting.expected} was expected")
    return value
