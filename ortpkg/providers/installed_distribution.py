"""Which distribution provides a backend's module, and in which version, found without importing the module."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledDistribution:
    """A distribution of the running environment; ``version`` is "" where the module has no metadata (a local build)."""

    name: str
    version: str


def find_distributions(module: str, names: Sequence[str]) -> tuple[InstalledDistribution, ...]:
    """Those of ``names`` (distributions that provide ``module``) that are installed; empty where the module is not.

    Several at once overwrite each other's files; the caller can say so.
    """
    if importlib.util.find_spec(module) is None:
        return ()
    import importlib.metadata as metadata  # 15 ms; only where the module exists

    found = []
    for name in names:
        try:
            found.append(InstalledDistribution(name=name, version=metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    if len(found) > 1:
        found = [each for each in found if _brings(metadata.files(each.name), module)] or found
    return tuple(found) or (InstalledDistribution(name=module, version=""),)


def _brings(files: Sequence[PurePath] | None, module: str) -> bool:
    """Whether a distribution's files make the module; one that only adds a plug-in library to it does not."""
    return files is None or any(file.as_posix() == f"{module}/__init__.py" for file in files)
