"""Native libraries of backends that the system's loader refuses, with its messages.

Loading them runs their initializers, so it happens in a child process with a time limit.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from ortpkg.foundations.isolation.backend_probe import probe_timeout_s
from ortpkg.foundations.isolation.child import ChildOutcome, call_in_child
from ortpkg.runtime.providers.nvidia_libraries import wheel_folders

#: Module → patterns of its native libraries, relative to its folder.
_NATIVE_LIBRARIES = {"onnxruntime": ("capi/*.so*",), "openvino": ("libs/*.so*", "*.so")}
_MOST_LIBRARIES = 200
_SEARCH_VARIABLE = "LD_LIBRARY_PATH"


def refused_libraries() -> dict[str, str]:
    """Return library of a backend ("openvino/libs/x.so") → the loader's message, if refused."""
    folders = {module: folder for module in _NATIVE_LIBRARIES if (folder := _folder_of(module))}
    libraries = {
        f"{module}/{path.relative_to(folder).as_posix()}": path
        for module, folder in folders.items()
        for path in sorted(
            {path for pattern in _NATIVE_LIBRARIES[module] for path in folder.glob(pattern)},
            key=lambda path: (not path.stem.endswith("providers_shared"), path),
        )
    }
    examined = dict(list(libraries.items())[:_MOST_LIBRARIES])
    search = dict.fromkeys([*(path.parent for path in examined.values()), *wheel_folders()])
    refused = refusals([str(path) for path in examined.values()], search=tuple(search))
    return {
        name: _without_folders(refused[str(path)], folders)
        for name, path in examined.items()
        if str(path) in refused
    }


def refusals(libraries: list[str], *, search: tuple[Path, ...] = ()) -> dict[str, str]:
    """Return library → reason, for those that cannot be loaded.

    One child process loads all of them; if it does not survive that, each gets a child of its own.

    Args:
        libraries: paths of the libraries.
        search: folders in which libraries that they need are searched in addition to the loader's
            own.
    """
    if not libraries:
        return {}
    search_path = os.environ.get(_SEARCH_VARIABLE, "")
    paths = [*([search_path] if search_path else []), *map(str, search)]
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
        for library_path in libraries
        for library, reason in refusals([library_path], search=search).items()
    }


def loader_sentences(libraries: list[str]) -> dict[str, str]:
    """Return the loader's message for each library that it refuses.

    The child's side of ``refusals``.
    """
    messages = {}
    for library in libraries:
        # Providers' libraries find symbols of onnxruntime in it.
        is_shared = Path(library).stem.endswith("providers_shared")
        try:
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL if is_shared else ctypes.DEFAULT_MODE)
        except OSError as error:
            messages[library] = str(error)
    return messages


def _folder_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(locations[0]) if locations else None


def _without_folders(sentence: str, folders: Mapping[str, Path]) -> str:
    for module, folder in folders.items():
        sentence = sentence.replace(f"{folder}/", f"{module}/")
    return sentence
