"""Finds the libraries of plug-in EPs in installed wheels.

A child process asks each candidate (``candidate_distributions``) through the functions of its
package. The answer is remembered until the distribution, its version or its files change. A wheel
without such functions has its library found by file name, and its EP by the library's own report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.foundations.ep_names import is_known_ep
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.backend_probe import ask_backend
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import (
    EpOrigin,
    ep_candidates,
    file_identity,
)
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpCandidate, EpPackage
from ortpkg.runtime.providers.ep_discovery.ep_finding import (
    EpFinding,
    name_by_file,
    problem_of_file,
    problem_of_names,
)
from ortpkg.runtime.providers.ep_discovery.library_refusals import (
    HALF_INSTALLED,
    REFUSALS,
    refusal_of,
    refusal_text,
)

_PROBE = "ortpkg.runtime.providers.ep_discovery.ep_package_probe"
_MOST_VERSION = 64


class PackageAnswer(NamedTuple):
    """Answer of a package: its library, the EPs in it, its version; "" and () for what it lacks.

    ``failure`` says why there is no answer.
    """

    path: str = ""
    ep_names: tuple[str, ...] = ()
    version: str = ""
    failure: str = ""


def wheel_findings() -> tuple[EpFinding, ...]:
    """Return a finding for each candidate that is a plug-in EP, sorted by distribution."""
    return tuple(
        finding for candidate in ep_candidates() if (finding := _finding(candidate)) is not None
    )


def _finding(candidate: EpCandidate) -> EpFinding | None:
    """Return the library of one candidate, or why it has none; None if it is no plug-in EP."""
    unnamed = EpFinding(
        EpOrigin.WHEEL, candidate.distribution, candidate.version, package=candidate.package
    )
    for path in candidate.files:
        if problem := problem_of_file(path):
            return unnamed._replace(problem=f"it lacks {problem}{_reinstall(candidate)}")
    if candidate.package is None:
        return _by_library(candidate, unnamed)
    answer = _ask_candidate(candidate, candidate.package)
    if answer.failure:
        missing = next(filter(None, map(problem_of_file, candidate.libraries)), "")
        problem = f"it lacks {missing}{_reinstall(candidate)}" if missing else ""
        return unnamed._replace(problem=problem or f"asked for its library, {answer.failure}")
    path, names = answer.path, answer.ep_names
    if not path:
        return _by_library(candidate, unnamed._replace(ep_names=names))
    problem = _problem_of_path(path, candidate) or problem_of_names(names)
    if problem or names:
        return unnamed._replace(path=path, ep_names=names, problem=problem)
    return _by_library(candidate, unnamed, path)


def _ask_candidate(candidate: EpCandidate, package: EpPackage) -> PackageAnswer:
    files = [os.path.join(package.folder, "__init__.py"), *candidate.libraries]  # noqa: PTH118
    return ask_package(
        package,
        _fingerprint(candidate, files),
        # A path from the environment (ggml's has a variable for another library) may change, and a
        # missing file may appear; the fingerprint changes with neither.
        is_path_kept=lambda path: not _problem_of_path(path, candidate),
    )


def ask_package(
    package: EpPackage, fingerprint: Mapping[str, object], is_path_kept: Callable[[str], bool]
) -> PackageAnswer:
    """Ask a package in a child process for its library and the EPs in it.

    Args:
        package: to ask.
        fingerprint: the answer is remembered as long as this stays the same.
        is_path_kept: returns True for a path with which the answer may be remembered.
    """
    answer = ask_backend(
        f"{_PROBE}:describe_package",
        {"module": package.module, "folder": package.folder},
        fingerprint=fingerprint,
        is_kept=lambda value: is_path_kept(_package_answer(value).path),
        refusals=REFUSALS,
    )
    return _package_answer(answer.value)._replace(failure=answer.failure)


def _package_answer(value: Any) -> PackageAnswer:
    value = value if isinstance(value, dict) else {}
    names = value.get("ep_names")
    return PackageAnswer(
        path=str(value.get("path", "")),
        ep_names=tuple(names) if isinstance(names, list) else (),
        version=str(value.get("version", ""))[:_MOST_VERSION],
    )


def _fingerprint(candidate: EpCandidate, files: Iterable[str]) -> Mapping[str, object]:
    return {
        "distribution": [candidate.distribution, candidate.version],
        "files": [[path, *file_identity(path)] for path in files],
    }


def _problem_of_path(path: str, candidate: EpCandidate) -> str:
    if not path:
        return ""
    if problem := problem_of_file(path):
        hint = _reinstall(candidate) if problem.endswith("not there") else ""
        return f"it says that its library is {problem}{hint}"
    if not _is_own_file(path, candidate):
        return (
            f"it says that its library is {quoted(path)}, which is not one of its own files;"
            " ortpkg ep add takes it from there"
        )
    return ""


def _is_own_file(path: str, candidate: EpCandidate) -> bool:
    """Return True if a file lies in the wheel's package, or is one of its libraries.

    Links are followed: installers link a package or its files into their caches.
    """
    if candidate.package is not None:
        folder = Path(candidate.package.folder)
        library_path = Path(os.path.normpath(path))
        if library_path.is_relative_to(folder) or library_path.is_relative_to(folder.resolve()):
            return True
    return any(
        os.path.samefile(path, library)  # noqa: PTH121 - texts
        for library in candidate.libraries
        if os.path.exists(library)  # noqa: PTH110 - as above
    )


def _reinstall(candidate: EpCandidate) -> str:
    return f"{HALF_INSTALLED}{candidate.distribution}"


def _by_library(candidate: EpCandidate, unnamed: EpFinding, path: str = "") -> EpFinding | None:
    """Return the finding for a wheel whose package does not name its EPs: ask the library."""
    if not path:
        if not candidate.libraries:
            return None
        path = candidate.libraries[0]
        if problem := problem_of_file(path):
            return unnamed._replace(problem=f"it lacks {problem}{_reinstall(candidate)}")
    if unnamed.ep_names:
        return unnamed._replace(path=path, problem=problem_of_names(unnamed.ep_names))
    names, _, problem = names_of_library(path, _fingerprint(candidate, [path]))
    return unnamed._replace(path=path, ep_names=names, problem=problem)


def names_of_library(
    path: str, fingerprint: Mapping[str, object], ep_names: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], str, str]:
    """Return the names of a library's EPs, its version, and why it cannot be used ("" if it can).

    A child process registers the library. If it offers no device here and no name is stated, the
    name that its file suggests counts, provided that ONNX Runtime has an EP of that name.

    Args:
        path: path of the library.
        fingerprint: JSON; the answer is remembered for as long as it stays the same.
        ep_names: names of its EPs, if they are known; the first is used to register it.
    """
    guess = ep_names[0] if ep_names else name_by_file(path)
    answer = ask_backend(
        f"{_PROBE}:describe_library",
        {"path": path, "ep_name": guess},
        fingerprint=fingerprint,
        # A driver that is installed later may have it offer a device.
        is_kept=lambda value: isinstance(value, dict) and bool(value.get("ep_names")),
        refusals=REFUSALS,
    )
    if reason := refusal_of(answer.value):
        return ep_names, "", refusal_text(reason)
    if answer.failure:
        return ep_names, "", f"asked for its name, {answer.failure}"
    value = answer.value if isinstance(answer.value, dict) else {}
    names = ep_names or tuple(map(str, value.get("ep_names") or ()))
    if not names and is_known_ep(guess):
        names = (guess,)
    if not names:
        return (), "", "it offers no device here, and nothing says the name of its EP"
    return names, str(value.get("version", "")), problem_of_names(names)
