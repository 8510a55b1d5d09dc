"""Read ``ortpkg.toml``: the packages that a project requests, their versions, and the machines.

::

    [packages]
    digits = "oci://models.example/digits:2"
    tinychar = { from = "oci://models.example/tinychar", version = ">=1.2,<2" }
    encoder = { from = "oci://models.example/encoder", version = "*", variants = ["cpu-int8"] }

    [profiles]
    laptop = "snapdragon-x-laptop"
    server = "machines/server.json"

In ``pyproject.toml`` the tables are ``[tool.ortpkg.packages]`` and ``[tool.ortpkg.profiles]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.distribution.project.configuration_files import project_table
from ortpkg.foundations.errors import PackageReferenceError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    is_store_name,
    is_tag,
    parse_reference,
)

PACKAGES, PROFILES = "packages", "profiles"
_KEYS = ("from", "version", "tag", "variants")
_MOST_PACKAGES = 10_000
_ANY_VERSION = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPackage:
    """One package that a project requests.

    Attributes:
        name: in the project, and in the store.
        source: the repository, without a version.
        source_text: the same as in the project's file: a layout's folder relative to the project.
        specifier: accepted versions, in the syntax of ``packaging`` (">=1.2,<2"); "" for any.
        tag: the tag that is followed instead of versions; None if versions count.
        variants: the variants fetched on every machine; empty for those that each machine selects.
    """

    name: str
    source: OciReference | LayoutReference
    source_text: str
    specifier: str = ""
    tag: str | None = None
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Content of a project's file.

    Attributes:
        file: path to the file.
        packages: name → request.
        profiles: name → machine profile: the name of a built-in one, or a file.
    """

    file: Path
    packages: Mapping[str, WantedPackage]
    profiles: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """The project's folder, which holds its lock."""
        return self.file.parent


def find_project(folder: Path | None = None) -> Project | None:
    """Return the project that ``folder`` (by default the current one) lies in.

    Return None if there is none that requests packages.

    Raises:
        UsageError: its file is wrong; names the file and the key.
    """
    file_and_table = project_table(folder)
    if file_and_table is None or PACKAGES not in file_and_table[1]:
        return None
    file, table = file_and_table
    return Project(
        file=file,
        packages={
            name: _requested_package(file, name, value)
            for name, value in _table(file, table, PACKAGES).items()
        },
        profiles={
            name: _profile(file, name, value)
            for name, value in _table(file, table, PROFILES).items()
        },
    )


def _table(file: Path, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, Mapping) or len(value) > _MOST_PACKAGES:
        raise _wrong(file, name, f"a table of at most {_MOST_PACKAGES} entries was expected")
    return value


def _profile(file: Path, name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(file, f"{PROFILES}.{name}", "the name or file of a profile was expected")
    folder = file.parent / value
    return str(folder) if folder.is_file() else value


def _requested_package(file: Path, name: str, value: object) -> WantedPackage:
    key = f"{PACKAGES}.{name}"
    if not is_store_name(name):
        raise _wrong(
            file, key, "a package's name is lower-case letters and digits, with . _ - inside"
        )
    table: Mapping[str, Any] = {"from": value} if isinstance(value, str) else _table_of(value)
    if not table:
        raise _wrong(file, key, "a reference, or a table with from, version, tag and variants")
    for table_key in table:
        if table_key not in _KEYS:
            hint = did_you_mean(table_key, _KEYS) or f"; the keys are {', '.join(_KEYS)}"
            raise _wrong(file, f"{key}.{table_key}", f"there is no such key{hint}")
    source = _source(file, key, table.get("from"))
    resolved_source = source
    if isinstance(source, LayoutReference):
        resolved_source = LayoutReference(directory=file.parent / source.directory)
    tag, version = table.get("tag", source.tag), table.get("version")
    if tag is not None and (not isinstance(tag, str) or not is_tag(tag)):
        raise _wrong(file, f"{key}.tag", "a tag was expected")
    if tag is not None and version is not None:
        raise _wrong(file, key, "it follows a tag, or versions: give one of the two")
    return WantedPackage(
        name=name,
        source=resolved_source.without_version,
        source_text=str(source.without_version),
        specifier=_specifier(file, key, version),
        tag=tag,
        variants=_texts(file, f"{key}.variants", table.get("variants", ())),
    )


def _table_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _source(file: Path, key: str, value: object) -> OciReference | LayoutReference:
    if not isinstance(value, str):
        raise _wrong(file, f"{key}.from", "a reference such as oci://host/repository was expected")
    try:
        reference = parse_reference(value)
    except PackageReferenceError as error:
        raise _wrong(file, f"{key}.from", str(error)) from error
    if not isinstance(reference, OciReference | LayoutReference):
        raise _wrong(
            file, f"{key}.from", f"{quoted(value)} is not in a registry: oci://..., oci-layout:..."
        )
    if reference.digest is not None:
        raise _wrong(
            file, f"{key}.from", "a digest belongs into the lock: state versions or a tag here"
        )
    return reference


def _specifier(file: Path, key: str, value: object) -> str:
    if value is None or value == _ANY_VERSION:
        return ""
    from packaging.specifiers import (  # only needed for a stated version
        InvalidSpecifier,
        SpecifierSet,
    )

    try:
        return str(SpecifierSet(value if isinstance(value, str) else "?"))
    except InvalidSpecifier as error:
        raise _wrong(
            file,
            f"{key}.version",
            f'versions such as ">=1.2,<2" were expected, not {quoted(value)}',
        ) from error


def _texts(file: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise _wrong(file, key, "a list of names was expected")
    return tuple(value)


def _wrong(file: Path, key: str, problem: str) -> UsageError:
    return UsageError(f"{quoted(file)}: {key}: {problem}")
