"""Plug-ins: execution providers that other distributions bring by the entry-point group ``ortpkg.execution_providers``.

An entry point's name is the EP's name; its object is a callable without arguments that returns an
:class:`EpFactory` (usually the class). It is imported only when a variant, an option or a caller names it, and first in
a child process with a time limit, so that one that crashes, hangs or exits is left out with its reason. docs/plugins.md
walks through an example.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.isolation.backend_probe import ProbeAnswer, ask_backend
from ortpkg.providers.ep_factory import EpFactory
from ortpkg.providers.installed_metadata import may_have_entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "ortpkg.execution_providers"
#: Names of the backends of our own; no plug-in can take them.
BUILT_IN_BACKENDS: tuple[str, ...] = ("embedded", "openvino", "onnxruntime", "prepack")
_FUNCTION = "ortpkg.providers.plugin_probe:check_plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An installed plug-in, not imported.

    Attributes:
        name: the EP's name.
        value: "module:object".
        distribution, version: what brings it; "" where the environment does not say.
        rivals: other distributions that bring the same name, and are not used.
    """

    name: str
    value: str
    distribution: str = ""
    version: str = ""
    rivals: tuple[str, ...] = ()

    def __str__(self) -> str:
        brought = f" of {quoted(self.distribution)}" if self.distribution else ""
        return f"plug-in {quoted(self.name)} ({quoted(self.value)}{brought})"


@cache
def installed_plugins() -> dict[str, Plugin]:
    """EP name → plug-in, sorted. Of several with one name the distribution that comes first by its name is used."""
    if not may_have_entry_points(ENTRY_POINT_GROUP):
        return {}
    from importlib.metadata import entry_points  # 15 ms; only where there may be some

    found: dict[str, list[Plugin]] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(entry_point.name, []).append(_plugin(entry_point))
    return {name: _chosen(found[name]) for name in sorted(found)}


def load_plugin(plugin: Plugin, *, check: Callable[[Plugin], ProbeAnswer] | None = None) -> EpFactory:
    """Imports a plug-in and makes its factory, after a child process did so without harm.

    Raises ExecutionProviderError, with the reason, where it cannot be imported or is not what it should be.
    """
    answer = (check or check_in_child)(plugin)
    if answer.failure:
        raise ExecutionProviderError(f"{plugin} cannot be loaded: {answer.failure}", ep_name=plugin.name)
    try:
        factory = _load(plugin)
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        raise ExecutionProviderError(f"{plugin} cannot be loaded: {quoted(said)}", ep_name=plugin.name) from error
    if not isinstance(factory, EpFactory):
        raise ExecutionProviderError(
            f"{plugin} must return an EpFactory, not {quoted(type(factory).__name__)}", ep_name=plugin.name
        )
    ep_name, backend = getattr(factory, "ep_name", None), getattr(factory, "backend", None)
    if ep_name != plugin.name or not isinstance(backend, str) or not backend or backend in BUILT_IN_BACKENDS:
        raise ExecutionProviderError(
            f"{plugin} must return an EpFactory whose ep_name is its entry point's name (it is {quoted(ep_name)}) and "
            f"whose backend is a name of its own (it is {quoted(backend)}), not one of {', '.join(BUILT_IN_BACKENDS)}",
            ep_name=plugin.name,
        )
    return factory


def check_in_child(plugin: Plugin) -> ProbeAnswer:
    """Whether the plug-in can be imported; remembered as long as its version and files are the same."""
    return ask_backend(
        _FUNCTION,
        {"group": ENTRY_POINT_GROUP, "name": plugin.name, "value": plugin.value},
        fingerprint={"distribution": plugin.distribution, "version": plugin.version, "files": _files_of(plugin)},
    )


def _load(plugin: Plugin) -> object:
    from importlib.metadata import EntryPoint  # only where a plug-in is named

    made: object = EntryPoint(name=plugin.name, value=plugin.value, group=ENTRY_POINT_GROUP).load()()
    return made


def _plugin(entry_point: EntryPoint) -> Plugin:
    distribution = entry_point.dist
    return Plugin(
        name=entry_point.name,
        value=entry_point.value,
        distribution=distribution.name if distribution is not None else "",
        version=distribution.version if distribution is not None else "",
    )


def _chosen(plugins: list[Plugin]) -> Plugin:
    first, *others = sorted(set(plugins), key=lambda each: (each.distribution, each.value))
    rivals = tuple(each.distribution or each.value for each in others)
    return Plugin(
        name=first.name, value=first.value, distribution=first.distribution, version=first.version, rivals=rivals
    )


def _files_of(plugin: Plugin) -> list[list[object]]:
    """The file of the plug-in's top module and its time, so that an edited plug-in is looked at again."""
    top = plugin.value.partition(":")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
        folder = os.path.dirname(spec.origin) if spec and spec.origin else ""  # noqa: PTH120 - a text, not a path
        return sorted([entry.name, entry.stat().st_mtime_ns] for entry in os.scandir(folder)) if folder else []
    except (OSError, ValueError, ImportError):
        return []
