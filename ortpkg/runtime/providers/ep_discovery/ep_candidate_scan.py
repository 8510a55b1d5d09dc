"""Scans the files of installed distributions for those that may bring a plug-in EP.

A distribution is a candidate if the source of one of its packages defines functions that return a
library's path and an EP's name (``ep_package_probe`` lists them), or if it installs a library with
the usual name of a plug-in. Nothing is imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpCandidate, EpPackage
from ortpkg.runtime.providers.installed_metadata import InstalledRecord, normal_name

#: Largest RECORD (tensorflow's has 3 MB) and ``__init__.py`` that are read, in bytes.
_MOST_RECORD_BYTES = 1 << 25
_MOST_SOURCE_BYTES = 1 << 16
_PREFIX = "onnxruntime-"
#: The package of onnxruntime itself; libraries in it are its own.
_RUNTIME = "onnxruntime"
_INIT = "__init__.py"
_ENDINGS = {"win32": r"\.dll", "darwin": r"\.dylib"}
_ENDING = _ENDINGS.get(sys.platform, r"\.so(?:\.[0-9.]+)?")
_ENDING_WORD = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_HAS_ENDING = re.compile(f"{_ENDING}$")
_EXTENSION_MODULE = re.compile(r"\.(?:cpython|abi3|pypy|cp3)[^/]*$")
#: Names of plug-in libraries: ``libonnxruntime_providers_webgpu.so``, ``libonnxruntime_ggml.so``.
_LIBRARY = re.compile(rf"(?:lib)?onnxruntime_(?!providers_shared\b)\w+{_ENDING}")
_RUNTIME_LIBRARY = re.compile(rf"(?:lib)?onnxruntime{_ENDING}")
_PATH_FUNCTION = re.compile(rb"\b(?:get_)?library_path\b")
_NAME_FUNCTION = re.compile(rb"\b(?:(?:get_)?ep_names?|_?EP_NAMES?)\b")


def is_plugin_library(file_name: str) -> bool:
    """Return True if a file has the usual name of a plug-in EP's library on this system."""
    return _LIBRARY.fullmatch(file_name) is not None


def scan(records: Iterable[InstalledRecord]) -> tuple[EpCandidate, ...]:
    """Return the candidates among ``records``, sorted by the names of their distributions."""
    candidates: dict[str, tuple[EpCandidate, ...]] = {}
    for record in records:
        if record.name not in candidates:  # as for modules, the first on the path counts
            candidates[record.name] = tuple(_candidates_of(record))
    return tuple(candidate for name in sorted(candidates) for candidate in candidates[name])


def _candidates_of(record: InstalledRecord) -> Iterator[EpCandidate]:
    is_named_so = record.name.startswith(_PREFIX)
    listed = _recorded_files(record)
    if listed is None:
        if not is_named_so:
            return
        listed = _files_in(record, record.name.replace("-", "_"))
    natives = [path for path in listed if _is_library(path)]
    if not natives and not is_named_so:
        return
    packages = _packages(listed, natives, is_named_so=is_named_so)
    left = [path for path in natives if is_plugin_library(PurePosixPath(path).name)]
    for package in packages:
        libraries = [path for path in left if path.startswith(f"{package}/")]
        if _mentions_ep(record, package, has_library=bool(libraries)):
            yield _candidate(record, package, libraries, listed)
            left = [path for path in left if path not in libraries]
    if is_named_so and not packages and (editable := _editable_package(record)):
        yield EpCandidate(record.name, record.version, editable)
    # A distribution with an onnxruntime of its own has its provider libraries for that one.
    if left and not any(_RUNTIME_LIBRARY.fullmatch(PurePosixPath(path).name) for path in natives):
        yield _candidate(record, "", left, listed)


def _recorded_files(record: InstalledRecord) -> list[str] | None:
    """Return the native libraries and ``__init__.py`` files in RECORD; None without a RECORD."""
    content = record.read("RECORD", _MOST_RECORD_BYTES)
    if content is None:
        return None
    return [
        path
        for line in content.decode("utf-8", "replace").splitlines()
        if (path := line.partition(",")[0].strip('"')).endswith(_INIT)
        or (_ENDING_WORD in path and _HAS_ENDING.search(path))
        if path.partition("/")[0] != _RUNTIME and not path.startswith(("../", "/"))
    ]


def _files_in(record: InstalledRecord, package: str) -> list[str]:
    """Return the files in a package's folder, for a distribution without a RECORD."""
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(os.path.join(record.folder, package)))  # noqa: PTH118, PTH208 - texts
        return [f"{package}/{name}" for name in names]
    return []


def _is_library(path: str) -> bool:
    top = path.partition("/")[0]
    return (
        _HAS_ENDING.search(path) is not None
        and _EXTENSION_MODULE.search(path) is None
        and not top.endswith((".libs", ".dylibs", ".data"))
    )


def _packages(listed: Sequence[str], natives: Sequence[str], *, is_named_so: bool) -> list[str]:
    """Return the folders of packages that may name their libraries, sorted.

    These are the packages around native libraries and, in a distribution called
    ``onnxruntime-*``, every package at the top.
    """
    packages = {path.removesuffix(f"/{_INIT}") for path in listed if path.endswith(f"/{_INIT}")}
    around = {
        str(parent)
        for path in natives
        for parent in PurePosixPath(path).parents
        if str(parent) in packages
    }
    tops = {package for package in packages if "/" not in package} if is_named_so else set()
    return sorted(around | tops)


def _mentions_ep(record: InstalledRecord, package: str, *, has_library: bool) -> bool:
    """Return True if a package's source has a function for a path, and one for an EP's name.

    One of the two is enough if the package has a library with the usual name of a plug-in. A
    package without source is damaged: it counts, so that a later check can say so.
    """
    try:
        with open(os.path.join(record.folder, package, _INIT), "rb") as file:  # noqa: PTH118, PTH123
            text = file.read(_MOST_SOURCE_BYTES)
    except OSError:
        return has_library
    mentions = (_PATH_FUNCTION.search(text) is not None, _NAME_FUNCTION.search(text) is not None)
    return any(mentions) if has_library else all(mentions)


def _candidate(
    record: InstalledRecord, package: str, libraries: Collection[str], listed: Collection[str]
) -> EpCandidate:
    def full(path: str) -> str:
        return os.path.join(record.folder, *path.split("/"))  # noqa: PTH118

    ordered = sorted(libraries, key=lambda path: (len(path), path))
    init = f"{package}/{_INIT}"
    return EpCandidate(
        distribution=record.name,
        version=record.version,
        package=EpPackage(package.replace("/", "."), full(package)) if package else None,
        libraries=tuple(map(full, ordered)),
        files=(full(init),) if package and init in listed else (),
    )


def _editable_package(record: InstalledRecord) -> EpPackage | None:
    """Return the package of a distribution that is installed from its source tree, if any."""
    module = normal_name(record.name).replace("-", "_")
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None and spec.submodule_search_locations:
            folder = Path(spec.origin).parent
            text = Path(spec.origin).read_bytes()[:_MOST_SOURCE_BYTES]
            if _PATH_FUNCTION.search(text) and _NAME_FUNCTION.search(text):
                return EpPackage(module, str(folder))
    return None
