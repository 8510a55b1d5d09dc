"""Which native libraries of backends the system's loader refuses, in its own words.

They are loaded, which runs their initializers, so in a child process with a time limit.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from ortpkg.isolation.backend_probe import probe_timeout_s
from ortpkg.isolation.child import ChildOutcome, call_in_child
from ortpkg.providers.nvidia_libraries import wheel_folders

#: Module → where its native libraries lie, relative to its folder.
_NATIVE_LIBRARIES = {"onnxruntime": ("capi/*.so*",), "openvino": ("libs/*.so*", "*.so")}
_MOST_LIBRARIES = 200
_SEARCH_VARIABLE = "LD_LIBRARY_PATH"


def refused_libraries() -> dict[str, str]:
    """Library of a backend ("openvino/libs/x.so") → why the loader refuses it, in its own words."""
    folders = {module: folder for module in _NATIVE_LIBRARIES if (folder := _folder_of(module))}
    libraries = {
        f"{module}/{path.relative_to(folder).as_posix()}": path
        for module, folder in folders.items()
        for path in sorted(
            {path for pattern in _NATIVE_LIBRARIES[module] for path in folder.glob(pattern)},
            key=lambda path: (not path.stem.endswith("providers_shared"), path),
        )
    }
    kept = dict(list(libraries.items())[:_MOST_LIBRARIES])
    search = dict.fromkeys([*(path.parent for path in kept.values()), *wheel_folders()])
    refused = refusals([str(path) for path in kept.values()], search=tuple(search))
    return {
        name: _without_folders(refused[str(path)], folders)
        for name, path in kept.items()
        if str(path) in refused
    }


def refusals(libraries: list[str], *, search: tuple[Path, ...] = ()) -> dict[str, str]:
    """Library → why it cannot be loaded, for those that cannot.

    One child loads all of them; where it does not survive that, each gets a child of its own.

    Args:
        libraries: their paths.
        search: where libraries that they need are looked for beside the loader's own places.
    """
    if not libraries:
        return {}
    given = os.environ.get(_SEARCH_VARIABLE, "")
    paths = [*([given] if given else []), *map(str, search)]
    answer = call_in_child(
        f"{__name__}:loader_sentences",
        {"libraries": libraries},
        timeout_s=probe_timeout_s(),
        variables={_SEARCH_VARIABLE: ":".join(paths)} if paths else {},
    )
    if answer.outcome is ChildOutcome.DONE:
        return dict(answer.value)
    if len(libraries) == 1:
        return {libraries[0]: answer.reason}
    return {
        library: reason
        for each in libraries
        for library, reason in refusals([each], search=search).items()
    }


def loader_sentences(libraries: list[str]) -> dict[str, str]:
    """What the loader says of those that it refuses; the child's side of :func:`refusals`."""
    said = {}
    for library in libraries:
        # Providers' libraries find in it what onnxruntime hands them.
        is_shared = Path(library).stem.endswith("providers_shared")
        try:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL if is_shared else ctypes.DEFAULT_MODE)
        except OSError as error:
            said[library] = str(error)
    return said


def _folder_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _without_folders(sentence: str, folders: Mapping[str, Path]) -> str:
    for module, folder in folders.items():
        sentence = sentence.replace(f"{folder}/", f"{module}/")
    return sentence
