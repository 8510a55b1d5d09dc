"""Finds the distribution that provides a backend's module, and its version, without an import."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

from ortpkg.runtime.providers.installed_metadata import recorded_versions


class InstalledDistribution(NamedTuple):
    """A distribution of the running environment.

    ``version`` is "" if the module has no metadata (a local build).
    """

    name: str
    version: str


def find_distributions(module: str, names: Sequence[str]) -> tuple[InstalledDistribution, ...]:
    """Return the distributions among ``names`` that are installed and provide ``module``.

    Several of them overwrite each other's files; the caller can say so. Distributions of an
    environment below this one do not count: their module is not the one that is imported.

    Args:
        module: name of the module; the result is empty if it is not installed.
        names: names of distributions that may provide the module.
    """
    spec = importlib.util.find_spec(module)
    if spec is None:
        return ()
    versions = recorded_versions(names)
    if versions is None:
        versions = _versions_by_metadata(names)
    distributions = [
        InstalledDistribution(name=name, version=versions[name])
        for name in names
        if name in versions
    ]
    if len(distributions) > 1:
        distributions = [
            distribution
            for distribution in distributions
            if _brings(distribution.name, module, spec)
        ] or distributions
    return tuple(distributions) or (InstalledDistribution(name=module, version=""),)


def _versions_by_metadata(names: Sequence[str]) -> dict[str, str]:
    from importlib import metadata  # 15 ms; only where folder names do not tell

    versions = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _brings(name: str, module: str, spec: ModuleSpec) -> bool:
    """Return True if a distribution's files make the module that is imported.

    One that only adds a plug-in library to it does not.
    """
    from importlib.metadata import distribution  # 15 ms; only where several claim to be the module

    recorded = distribution(name)
    if recorded.files is None:
        return True
    init_file = f"{module}/__init__.py"
    if all(file.as_posix() != init_file for file in recorded.files):
        return False
    with contextlib.suppress(OSError):
        path = Path(str(recorded.locate_file(init_file)))
        return spec.origin is None or not path.exists() or path.samefile(spec.origin)
    return True
