"""Plug-ins: providers that distributions bring as entry points ``ortpkg.execution_providers``.

An entry point's name is the EP's name; its object is a callable without arguments that returns an
:class:`EpFactory` (usually the class). It is asked only when a variant, an option or a caller names
it, and always in a child process with a time limit, so that one that crashes, hangs or exits is
left out with its reason. This process imports it only if a session needs its provider.
docs/plugins.md walks through an example.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, ask_backend, asking_anew
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.json_form import (
    ep_device_to_json,
    hardware_device_from_json,
    hardware_device_to_json,
)
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.installed_metadata import may_have_entry_points
from ortpkg.runtime.providers.operator_support import OperatorSupport, plugin_support

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ortpkg.runtime.providers.execution_provider import ExecutionProvider

ENTRY_POINT_GROUP = "ortpkg.execution_providers"
#: Names of the backends of our own; no plug-in can take them.
BUILT_IN_BACKENDS: tuple[str, ...] = ("embedded", "openvino", "onnxruntime", "llvm")
#: Loading a plug-in changes this folder, but none of its answers.
_BYTECODE = "__pycache__"
_PROBE = "ortpkg.runtime.providers.plugin_probe"
#: Has an element if this process is itself the child in which a plug-in is tried.
_TRIES_NOTHING: list[bool] = []
#: EP name → plug-in that the program registered; gone with the process.
_REGISTERED: dict[str, Plugin] = {}
#: The project's name at the beginning of a requirement (PEP 508).
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Plugin(NamedTuple):
    """Installed plug-in, not imported.

    Attributes:
        name: the EP's name.
        value: "module:object".
        distribution, version: distribution that brings it; "" if the environment does not say.
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
    """Return EP name → plug-in, sorted.

    If several have the same name, the distribution that comes first by its name is used.
    """
    if not may_have_entry_points(ENTRY_POINT_GROUP):
        return dict(sorted(_REGISTERED.items()))
    from importlib.metadata import entry_points  # 15 ms; only where there may be some

    plugins: dict[str, list[Plugin]] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        plugins.setdefault(entry_point.name, []).append(_plugin(entry_point))
    chosen = {name: _chosen(plugins[name]) for name in plugins}
    return dict(sorted({**_REGISTERED, **chosen}.items()))


def register_plugin(value: str) -> Plugin:
    """Register ``value`` ("module:object") as a plug-in of this process, as if it were installed.

    Raises:
        ExecutionProviderError: it cannot be loaded, or returns no suitable factory; the message has
            the reason.
    """
    unnamed = Plugin(name="", value=value)
    answer = ask_plugin("check_plugin", unnamed, {})
    if answer.failure:
        raise ExecutionProviderError(
            f"{quoted(value)} cannot be loaded: {answer.failure}", ep_name=""
        )
    facts = answer.value if isinstance(answer.value, dict) else {}
    plugin = Plugin(name=str(facts.get("ep_name", "")), value=value)
    _check_facts(plugin, facts)
    if plugin.name in installed_plugins():
        raise ExecutionProviderError(
            f"{installed_plugins()[plugin.name]} is there already; {quoted(value)} brings the same"
            " name",
            ep_name=plugin.name,
        )
    _REGISTERED[plugin.name] = plugin
    installed_plugins.cache_clear()
    return plugin


def unregister_plugin(name: str) -> None:
    """Forget a plug-in that :func:`register_plugin` registered.

    Sessions that have its provider keep it.
    """
    _REGISTERED.pop(name, None)
    installed_plugins.cache_clear()


def registered_values() -> tuple[str, ...]:
    """Return "module:object" of each registered plug-in, for another process of ours."""
    return tuple(plugin.value for plugin in _REGISTERED.values())


def try_nothing_first() -> None:
    """Let plug-ins work here without a trial: this process is a child made for one."""
    _TRIES_NOTHING.append(True)


def tries_first() -> bool:
    """Return True if plug-ins' tasks are tried in a child process before they are done here."""
    return not _TRIES_NOTHING


def load_plugin(plugin: Plugin) -> EpFactory:
    """Return the plug-in's factory, which asks it in child processes.

    This process imports it only to make a provider.

    Raises:
        ExecutionProviderError: it cannot be imported, or returns no suitable factory; the message
            has the reason.
    """
    answer = ask_plugin("check_plugin", plugin, {})
    if answer.failure:
        raise ExecutionProviderError(
            f"{plugin} cannot be loaded: {answer.failure}", ep_name=plugin.name
        )
    facts = answer.value if isinstance(answer.value, dict) else {}
    _check_facts(plugin, facts)
    return PluginEpFactory(plugin, facts)


def ask_plugin(function: str, plugin: Plugin, arguments: Mapping[str, Any]) -> ProbeAnswer:
    """Return the answer of a function of ``plugin_probe`` in a child process.

    It is remembered as long as the plug-in, its files, and the distributions that it requires have
    the same versions. An answer that it offers nothing is not, since a missing part may be
    installed at any time.
    """
    return ask_backend(
        f"{_PROBE}:{function}",
        {"group": ENTRY_POINT_GROUP, "name": plugin.name, "value": plugin.value, **arguments},
        fingerprint=plugin_fingerprint(plugin),
        is_kept=lambda value: not _offers_nothing(value, arguments) and not _makes_nothing(value),
    )


def plugin_fingerprint(plugin: Plugin) -> dict[str, Any]:
    """Return JSON that an answer of the plug-in depends on, beside the question."""
    return {
        "distribution": plugin.distribution,
        "version": plugin.version,
        "files": _files_of(plugin),
        "requires": _required_versions(plugin.distribution) if plugin.distribution else [],
    }


class PluginEpFactory(EpFactory):
    """Stand-in for a plug-in's factory, which asks it in a child process, where it is harmless."""

    def __init__(self, plugin: Plugin, facts: Mapping[str, Any]) -> None:
        self.ep_name = plugin.name
        self.vendor = str(facts.get("vendor", ""))
        self.backend = str(facts["backend"])
        self._version = str(facts.get("version", ""))
        self.plugin = plugin
        #: Why it is not asked for ratings any more: it did not answer in time, and each further
        #: question would cost that time again.
        self._hang = ""

    @property
    def version(self) -> str:
        return self._version

    def is_available(self) -> bool:
        """Return the plug-in's answer; ExecutionProviderError if it fails."""
        return bool(self._offers(()).get("is_available"))

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return the plug-in's answer; nothing if it is not available.

        Raises:
            ExecutionProviderError: it fails.
        """
        return [
            _offered(document, hardware)
            for document in self._offers(hardware).get("ep_devices", ())
        ]

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        """Return the plug-in's answer, which is remembered per string and device.

        Raises:
            ExecutionProviderError: it fails.
        """
        if self._hang:
            raise ExecutionProviderError(self._hang, ep_name=self.ep_name)
        arguments = {
            "devices": [hardware_device_to_json(device) for device in devices],
            "info": info,
        }
        answer = ask_plugin("rate_compatibility", self.plugin, arguments)
        if answer.failure:
            message = f"{self.plugin} failed to rate a compatibility string: {answer.failure}"
            self._hang = message if answer.is_hang else ""
            raise ExecutionProviderError(message, ep_name=self.ep_name)
        return CompiledModelCompatibility(answer.value["rating"])

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return plugin_support(needed, ep_name=self.ep_name)

    def has_device(self, ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> bool:
        with asking_anew():
            return ep_device in self.get_supported_devices(hardware)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        """Make the plug-in's provider in this process, once a child process has made one.

        Raises:
            ExecutionProviderError: the plug-in raises anything, or the child crashed or hung.
        """
        # numpy and importlib.metadata: only where a session is made
        from ortpkg.runtime.providers.execution_provider import ExecutionProvider
        from ortpkg.runtime.providers.foreign_code import foreign_code
        from ortpkg.runtime.providers.plugin_probe import load

        arguments = {
            "devices": [ep_device_to_json(ep_device) for ep_device in devices],
            "options": dict(options),
        }
        failure = (
            ask_plugin("create_provider", self.plugin, arguments).failure if tries_first() else ""
        )
        if failure:
            raise ExecutionProviderError(
                f"{self.plugin} failed to make an execution provider: {failure}",
                ep_name=self.ep_name,
            )
        with foreign_code(self.ep_name, "make an execution provider"):
            made: object = load(ENTRY_POINT_GROUP, self.plugin.name, self.plugin.value).create(
                devices, options
            )
        if not isinstance(made, ExecutionProvider):
            raise ExecutionProviderError(
                f"{self.plugin} must make an ExecutionProvider, not {quoted(type(made).__name__)}",
                ep_name=self.ep_name,
            )
        if made.name != self.ep_name:
            raise ExecutionProviderError(
                f"{self.plugin} must make an ExecutionProvider of its own name, not"
                f" {quoted(made.name)}",
                ep_name=self.ep_name,
            )
        # the backend that was checked, whatever the provider itself states
        made.made_by(self.backend)
        return made

    def _offers(self, hardware: Sequence[HardwareDevice]) -> Mapping[str, Any]:
        arguments = {"hardware": [hardware_device_to_json(device) for device in hardware]}
        answer = ask_plugin("list_offers", self.plugin, arguments)
        if answer.failure:
            raise ExecutionProviderError(
                f"{self.plugin} failed to say what it offers: {answer.failure}",
                ep_name=self.ep_name,
            )
        return answer.value if isinstance(answer.value, dict) else {}


def _offers_nothing(value: object, arguments: Mapping[str, Any]) -> bool:
    """Return True for the answer that it is not available, or has nothing on the devices."""
    if not isinstance(value, dict) or "is_available" not in value:
        return False
    return not value["is_available"] or (
        bool(arguments.get("hardware")) and not value["ep_devices"]
    )


def _makes_nothing(value: object) -> bool:
    """Return True for the answer that it made no provider: a missing part may come at any time."""
    return isinstance(value, dict) and value.get("is_made") is False


def _check_facts(plugin: Plugin, facts: Mapping[str, Any]) -> None:
    if not facts.get("is_factory"):
        raise ExecutionProviderError(
            f"{plugin} must return an EpFactory, not {quoted(facts.get('type', 'nothing'))}",
            ep_name=plugin.name,
        )
    ep_name, backend = facts.get("ep_name"), facts.get("backend")
    if ep_name != plugin.name or not backend or backend in BUILT_IN_BACKENDS:
        raise ExecutionProviderError(
            f"{plugin} must return an EpFactory whose ep_name is its entry point's name (it is"
            f" {quoted(ep_name)}) and whose backend is a name of its own (it is {quoted(backend)}),"
            f" not one of {', '.join(BUILT_IN_BACKENDS)}",
            ep_name=plugin.name,
        )


def _offered(body: Mapping[str, Any], hardware: Sequence[HardwareDevice]) -> EpDevice:
    """Return an EP device that the child described, on the device asked about if it is one."""
    device = None
    if body["place"] is not None:
        device = hardware[body["place"]]
    elif body["device"] is not None:
        device = hardware_device_from_json(body["device"])
    return EpDevice(
        ep_name=body["ep"],
        device=device,
        ep_vendor=body["ep_vendor"],
        ep_version=body["ep_version"],
        backend=body["backend"],
        ep_metadata=body["ep_metadata"],
        ep_options=body["ep_options"],
    )


@cache
def _required_versions(distribution: str) -> list[list[str]]:
    """Return the distributions that ``distribution`` itself requires, with installed versions."""
    from importlib import metadata  # 15 ms; only where a plug-in is named

    versions = []
    try:
        for requirement in metadata.requires(distribution) or ():
            matched = _PROJECT.match(requirement)
            with contextlib.suppress(metadata.PackageNotFoundError):
                versions += [[matched[0], metadata.version(matched[0])]] if matched else []
    except metadata.PackageNotFoundError:
        return []
    return sorted(versions)


def _plugin(entry_point: EntryPoint) -> Plugin:
    distribution = entry_point.dist
    return Plugin(
        name=entry_point.name,
        value=entry_point.value,
        distribution=distribution.name if distribution is not None else "",
        version=distribution.version if distribution is not None else "",
    )


def _chosen(plugins: list[Plugin]) -> Plugin:
    first, *others = sorted(set(plugins), key=lambda plugin: (plugin.distribution, plugin.value))
    rivals = tuple(plugin.distribution or plugin.value for plugin in others)
    return Plugin(
        name=first.name,
        value=first.value,
        distribution=first.distribution,
        version=first.version,
        rivals=rivals,
    )


def _files_of(plugin: Plugin) -> list[list[object]]:
    """Return the files beside the plug-in's modules and their times: an edit has it asked again."""
    top, *inner = plugin.value.partition(":")[0].split(".")
    try:
        spec = importlib.util.find_spec(top)
        if spec is None:
            return []
        # A package without __init__.py has folders, and no file of its own.
        folders = list(spec.submodule_search_locations or ()) or [
            os.path.dirname(spec.origin or "")  # noqa: PTH120 - a text
        ]
        for part in inner[:-1]:
            folders += [
                folder
                for parent in folders
                if os.path.isdir(folder := os.path.join(parent, part))  # noqa: PTH112, PTH118
            ]
        entries = [
            entry
            for parent in folders
            if parent
            for entry in os.scandir(parent)
            if entry.name != _BYTECODE
        ]
        return sorted([entry.name, entry.stat().st_mtime_ns] for entry in entries)
    except (OSError, ValueError, ImportError):
        return []
