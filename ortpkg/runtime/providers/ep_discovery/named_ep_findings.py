"""Finds the EPs in libraries and folders that the user names; child processes load them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import (
    EpOrigin,
    file_identity,
)
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpPackage
from ortpkg.runtime.providers.ep_discovery.ep_candidate_scan import is_plugin_library
from ortpkg.runtime.providers.ep_discovery.ep_finding import (
    EpFinding,
    problem_of_file,
    problem_of_names,
)
from ortpkg.runtime.providers.ep_discovery.ep_wheels import ask_package, names_of_library
from ortpkg.runtime.providers.ep_discovery.named_ep_libraries import NamedLibrary

#: Most entries of a folder that are looked at.
_MOST_FILES = 10_000
#: Most libraries of one folder that are tried, each in a process of its own.
_MOST_LIBRARIES = 32


def named_findings(library: NamedLibrary) -> Iterator[EpFinding]:
    """Yield a finding for each library in a file or folder, or one that says why there is none."""
    unnamed = EpFinding(EpOrigin.NAMED, path=library.path)
    if not os.path.isdir(library.path):  # noqa: PTH112 - a text from outside
        yield _of_library(library.path, library.ep_names, unnamed)
        return
    if os.path.isfile(os.path.join(library.path, "__init__.py")):  # noqa: PTH113, PTH118
        yield _of_package(library, unnamed)
        return
    paths = _libraries_in(library.path)
    if not paths:
        problem = "the folder holds no library called onnxruntime_..., nor a package of a wheel"
        yield unnamed._replace(problem=problem)
    elif len(paths) > (1 if library.ep_names else _MOST_LIBRARIES):
        problem = f"the folder holds {len(paths)} libraries; name the one that is meant"
        yield unnamed._replace(problem=problem)
    else:
        for path in paths:
            yield _of_library(path, library.ep_names, unnamed._replace(path=path))


def _libraries_in(folder: str) -> list[str]:
    """Return paths in a folder, or in its folder ``lib``, with the usual names of plug-ins."""
    for directory in (folder, os.path.join(folder, "lib")):  # noqa: PTH118
        try:
            names = sorted(os.listdir(directory))[:_MOST_FILES]  # noqa: PTH208 - texts
        except OSError:
            continue
        paths = [os.path.join(directory, name) for name in names if is_plugin_library(name)]  # noqa: PTH118
        if paths:
            return paths
    return []


def _of_library(path: str, ep_names: tuple[str, ...], unnamed: EpFinding) -> EpFinding:
    if problem := problem_of_file(path):
        return unnamed._replace(problem=f"it {problem.rpartition(', which ')[2]}")
    fingerprint = {"library": [path, *file_identity(path)]}
    names, version, problem = names_of_library(path, fingerprint, ep_names)
    return unnamed._replace(path=path, version=version, ep_names=names, problem=problem)


def _of_package(library: NamedLibrary, unnamed: EpFinding) -> EpFinding:
    package = EpPackage(Path(library.path).name, library.path)
    init = os.path.join(library.path, "__init__.py")  # noqa: PTH118
    answer = ask_package(
        package,
        {"package": [init, *file_identity(init)]},
        is_path_kept=os.path.isfile,
    )
    if answer.failure:
        return unnamed._replace(problem=f"asked for its library, {answer.failure}")
    path, names = answer.path, library.ep_names or answer.ep_names
    if not path:
        return unnamed._replace(problem="the package has no function get_library_path()")
    if problem := problem_of_file(path) or problem_of_names(names):
        return unnamed._replace(problem=f"it says that its library is {problem}")
    if not Path(path).resolve().is_relative_to(Path(library.path).resolve()):
        return unnamed._replace(
            problem=f"its library is {quoted(path)}, outside of the folder; name that one"
        )
    unnamed = unnamed._replace(version=answer.version)
    if names:
        return unnamed._replace(path=path, ep_names=names, package=package)
    return _of_library(path, (), unnamed._replace(package=package))
