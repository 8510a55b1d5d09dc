"""Defaults of a user or project if the command line says nothing: policy, backend, trust, threads.

The first source that has a value counts: the command line, the environment, the project's file
(``ortpkg.toml``, or ``[tool.ortpkg]`` in ``pyproject.toml``, in the current folder or the nearest
above it), the user's own file, the default. Settings that can do harm are read only from the user's
own sources, never from a project's file, because a project may not be trusted. Files inside a
package are not read at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.distribution.project.configuration_files import (
    project_table,
    toml_document,
    user_config_file,
)
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.variables import yes_or_no

#: Tables of a project's file with its packages (``ortpkg/distribution/project``).
_PACKAGE_TABLES = ("packages", "profiles")


class Settings(NamedTuple):
    """Settings that apply if the command line says nothing; None for the command's own default.

    Attributes:
        policy, backend: See ``--policy`` and ``--backend`` of ``select`` and ``run``.
        trust: See ``--trust``.
        threads: See ``--threads``.
        ep_libraries: Libraries of EPs that the user names, as the providers read them.
        sources: Source of each setting, for people.
    """

    policy: str | None = None
    backend: str | None = None
    trust: bool | None = None
    threads: int | None = None
    ep_libraries: tuple[str, ...] | None = None
    sources: Mapping[str, str] = EMPTY


class _Setting(NamedTuple):
    """Parser of one setting; with ``is_personal`` a project's file must not have it."""

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
    """Return the texts of the setting; in the variable they are separated like paths."""
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
    """Return all settings that apply in ``folder`` (default: the current one).

    Raises:
        UsageError: A file is not TOML, a key is unknown, a value is invalid, or a project's file
            has a personal setting. The message has the file and the key.
    """
    values_by_name: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, values in _all_sources(folder):
        for name, value in values.items():
            if name not in values_by_name:
                values_by_name[name], sources[name] = value, source
    return Settings(**values_by_name, sources=sources)


def project_config_file(folder: Path | None = None) -> Path | None:
    """Return the project's file that applies in ``folder`` (default: the current one), or None.

    Raises:
        UsageError: The file cannot be read.
    """
    file_and_table = project_table(folder)
    return None if file_and_table is None else file_and_table[0]


def setting_variable(name: str) -> str:
    """Return the environment variable of a setting.

    >>> setting_variable("policy")
    'ORTPKG_POLICY'
    """
    return f"ORTPKG_{name.upper()}"


def _all_sources(folder: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each source and its values by name, in order of precedence."""
    for name, setting in _SETTINGS.items():
        variable = setting_variable(name)
        if raw_value := os.environ.get(variable):
            yield variable, {name: _value(name, setting, raw_value, variable)}
    project = project_table(folder)
    if project is not None:
        file, table = project
        yield str(file), _checked(table, file, is_project=True)
    user_file = user_config_file()
    if (user_table := toml_document(user_file)) is not None:
        yield str(user_file), _checked(user_table, user_file, is_project=False)


def _checked(table: Mapping[str, Any], file: Path, *, is_project: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        if is_project and name in _PACKAGE_TABLES:
            continue
        setting = _SETTINGS.get(name)
        if setting is None:
            known_settings = ", ".join(_SETTINGS)
            raise UsageError(
                f"{quoted(file)}: there is no setting"
                f" {quoted(name)}{did_you_mean(name, _SETTINGS)}; {known_settings}"
            )
        if is_project and setting.is_personal:
            raise UsageError(
                f"{quoted(file)}: {name} is not for a project's file, which may come from anybody: "
                f"write it to {quoted(user_config_file())}, or set {setting_variable(name)}"
            )
        values[name] = _value(name, setting, value, quoted(file))
    return values


def _value(name: str, setting: _Setting, raw_value: object, where: str) -> Any:
    value = setting.read(raw_value)
    if value is None:
        raise UsageError(f"{where}: {name} is {quoted(raw_value)}; {setting.expected} was expected")
    return value
