"""Shell completion after options: names from the given package, and lists of words.

Completions run while somebody types. They open only the package's documents, probe nothing and
never raise; without an answer they offer nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortpkg.package.package_info import PackageInfo

Completion = Callable[[Any, str], list[str]]

#: Parameters of commands that are a package.
_PACKAGE_PARAMETERS = ("package", "model", "target")


def words_to_complete() -> list[str]:
    """Return the words after ``ortpkg`` on the line that a shell completes."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _completion(words: Callable[[Any], Iterable[str]]) -> Completion:
    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            return [
                word
                for word in dict.fromkeys(words(ctx))
                if word.startswith(incomplete) and word.isprintable()
            ]
        except Exception:  # noqa: BLE001  # a traceback helps nobody here
            return []

    return complete


def _package(ctx: Any) -> PackageInfo:
    from ortpkg.package.formats.enclosing_package import enclosing_package
    from ortpkg.package.reader import (
        open_package,  # opened only where a name out of it is asked for
    )

    # Some commands take several packages. If an option still lacks its value, parsing stops, and
    # the package is among the remaining words.
    single = [ctx.params[name] for name in _PACKAGE_PARAMETERS if ctx.params.get(name)]
    named = next(iter([*single, *(ctx.params.get("packages") or ()), *ctx.args]), None)
    root = enclosing_package(Path.cwd()) if named is None else Path(named)
    assert root is not None, "no package, no names"
    return open_package(root)


def _components(ctx: Any) -> list[str]:
    return [component.name for component in _package(ctx).components]


def _variants(ctx: Any) -> list[str]:
    chosen = ctx.params.get("component")
    components = [
        component for component in _package(ctx).components if chosen in {None, component.name}
    ]
    return [variant.name for component in components for variant in component.variants]


def _inputs(ctx: Any) -> list[str]:
    return [f"{value.name}=" for value in _package(ctx).inputs]


def _eps(_ctx: Any) -> list[str]:
    from ortpkg.foundations.ep_names import EP_ALIASES, KNOWN_EPS
    from ortpkg.foundations.isolation.backend_probe import asking_nobody
    from ortpkg.runtime.providers.ep_discovery.ep_libraries import installed_ep_libraries

    with asking_nobody():
        libraries = [library.ep_name for library in installed_ep_libraries()]
    return [*EP_ALIASES, *libraries, *KNOWN_EPS]


def _devices(_ctx: Any) -> list[str]:
    from ortpkg.machine.hardware import DeviceType

    return [device.value for device in DeviceType]


def _policies(_ctx: Any) -> list[str]:
    from ortpkg.machine.policies import POLICIES, RELEASE_POLICIES

    return [*POLICIES, *RELEASE_POLICIES]


def _backends(_ctx: Any) -> list[str]:
    from ortpkg.runtime.providers.plugins import BUILT_IN_BACKENDS

    return ["auto", *BUILT_IN_BACKENDS]


def _formats(_ctx: Any) -> list[str]:
    return ["universal", "metadata", "component"]


def _compats(_ctx: Any) -> list[str]:
    from ortpkg.foundations.onnxruntime_releases import (
        ONNXRUNTIME_1_30,
        ONNXRUNTIME_1_31,
        ONNXRUNTIME_1_32,
    )

    return [ONNXRUNTIME_1_32, ONNXRUNTIME_1_31, ONNXRUNTIME_1_30]


complete_component = _completion(_components)
complete_variant = _completion(_variants)
complete_input = _completion(_inputs)
complete_ep = _completion(_eps)
complete_device = _completion(_devices)
complete_policy = _completion(_policies)
complete_backend = _completion(_backends)
complete_format = _completion(_formats)
complete_compat = _completion(_compats)
