"""Which execution providers there are: a table of built-in ones, the bridge's, plug-ins.

A plug-in (``plugins.py``) is asked only when a variant, an option or a caller names it. A built-in
name cannot be taken by a plug-in; a session says so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.devices.hardware import HardwareDevice
from ortpkg.ep_names import (
    CPU_EP,
    LLVM_EP,
    OPENVINO_EP,
    ep_named,
    ep_priority,
    is_known_ep,
    resolve_ep_name,
    suggest_ep_name,
    unknown_ep_message,
)
from ortpkg.errors import ExecutionProviderError, UnknownExecutionProviderError, quoted
from ortpkg.providers.cpu_factory import CpuEpFactory
from ortpkg.providers.ep_discovery.ep_libraries import (
    EpLibrary,
    displaced_note,
    ep_library_notes,
    ep_library_of,
    installed_ep_libraries,
)
from ortpkg.providers.ep_factory import CpuDevicesEpFactory, EpFactory
from ortpkg.providers.llvm_compiler import has_compiler
from ortpkg.providers.onnxruntime_factory import (
    OnnxRuntimeEpFactory,
    installed_distributions,
    list_ep_names,
)
from ortpkg.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.providers.plugins import BUILT_IN_BACKENDS, Plugin, installed_plugins, load_plugin
from ortpkg.versions import is_same_version

if TYPE_CHECKING:
    from ortpkg.providers.ep_library_factory import EpLibraryFactory


def _llvm_factory() -> EpFactory:
    from ortpkg.providers.llvm_factory import LlvmEpFactory  # only where it is offered

    return LlvmEpFactory()


#: EP name → factory of the backend of our own. The onnxruntime bridge adds every EP of an installed
#: onnxruntime.
BUILT_IN_FACTORIES: dict[str, Callable[[], EpFactory]] = {
    OPENVINO_EP: OpenVinoEpFactory,
    CPU_EP: CpuEpFactory,
}
#: Built in too, but offered only where somebody names them, or where their compiler is installed.
NAMED_FACTORIES: dict[str, Callable[[], EpFactory]] = {
    LLVM_EP: _llvm_factory,
}


def compiling_eps() -> tuple[str, ...]:
    """Return the built-in EPs to suggest for compiling; no device is asked."""
    return (LLVM_EP, *((OPENVINO_EP,) if OpenVinoEpFactory().is_available() else ()))


class AvailableFactories(NamedTuple):
    """The factories that can be asked here, in default priority order, and what went wrong."""

    factories: tuple[EpFactory, ...]
    notes: tuple[str, ...] = ()


def find_factory(ep_name: str, *, backend: str | None = None) -> EpFactory:
    """The factory of an EP (or alias) on ``backend``, or on the first backend that has it.

    Without a backend: a built-in one, then a plug-in, then the onnxruntime bridge: onnxruntime's
    own, then a wheel's. The factory's library need not be installed; ``is_available`` tells. A
    built-in one without its library stands back for the bridge's.

    Raises UnknownExecutionProviderError for a name that nothing here has, ExecutionProviderError
    for a plug-in that cannot be loaded.
    """
    name = resolve_ep_name(ep_name)
    built_in = _built_in(name)
    if built_in is not None:
        _warn_of_name_clash(name)
        factory = built_in()
        if backend == factory.backend or (
            backend is None and (factory.is_available() or not _has_library(name))
        ):
            return factory
    elif name in installed_plugins() and backend not in BUILT_IN_BACKENDS:
        return load_plugin(installed_plugins()[name])
    if backend in {None, "onnxruntime"} and installed_distributions():
        is_own = (backend is not None and not _has_library(name)) or name in list_ep_names(())
        library = None if is_own else ep_library_of(name)
        if is_own or library is not None:
            return OnnxRuntimeEpFactory(name) if library is None else _library_factory(library)
    raise UnknownExecutionProviderError(_unknown_message(ep_name, name, backend), ep_name=name)


def installed_factory(ep_name: str, *, backend: str, version: str) -> EpFactory | None:
    """The factory that is installed here for exactly this EP, backend and version.

    None where there is none.

    A provider of ours is this ortpkg's wherever a profile leaves its version open. Plug-ins are
    not imported. What an onnxruntime of that version has is asked in a child process; a failure is
    a None.
    """
    built_in = _built_in(ep_name)
    factory = built_in() if built_in is not None else None
    if factory is None or factory.backend != backend:
        library = (
            ep_library_of(ep_name)
            if backend == "onnxruntime" and installed_distributions()
            else None
        )
        if library is not None and is_same_version(library.version, version):
            return _library_factory(library)
        factory = OnnxRuntimeEpFactory(ep_name) if backend == "onnxruntime" else None
    if factory is None or not factory.is_available():
        return None
    if isinstance(factory, CpuDevicesEpFactory) and not version:
        return factory
    if not version or not is_same_version(factory.version, version):
        return None
    return factory if backend != "onnxruntime" or ep_name in _names_of_onnxruntime() else None


def _has_library(name: str) -> bool:
    return bool(installed_distributions()) and ep_library_of(name) is not None


def _names_of_onnxruntime() -> tuple[str, ...]:
    try:
        return list_ep_names(())
    except ExecutionProviderError:
        return ()


def available_factories(
    hardware: Sequence[HardwareDevice], *, named: Collection[str] = (), with_libraries: bool = True
) -> AvailableFactories:
    """Every factory whose library is installed, in default priority order.

    Of plug-ins only those in ``named``.

    ``with_libraries``: those that wheels bring for onnxruntime, too. A backend or plug-in that
    fails is left out and noted.
    """
    notes: list[str] = []
    wanted = {resolve_ep_name(name) for name in named}
    builds = [
        *BUILT_IN_FACTORIES.values(),
        *(
            build
            for name, build in NAMED_FACTORIES.items()
            if name in wanted or (name == LLVM_EP and has_compiler())
        ),
    ]
    factories = [factory for factory in (build() for build in builds) if factory.is_available()]
    try:
        own = list_ep_names(hardware)
        factories += [OnnxRuntimeEpFactory(name) for name in own]
        if own and with_libraries:
            factories += _factories_of_libraries(own, wanted, notes)
    except ExecutionProviderError as error:
        notes.append(str(error))
    for name in sorted(wanted & set(installed_plugins())):
        factories += _factory_of_plugin(installed_plugins()[name], notes)
    if len(installed_distributions()) > 1:
        names = ", ".join(found.name for found in installed_distributions())
        notes.append(f"several distributions of onnxruntime overwrite each other here: {names}")
    ordered = sorted(
        factories,
        key=lambda factory: (ep_priority(factory.ep_name), factory.ep_name, factory.backend),
    )
    return AvailableFactories(factories=tuple(ordered), notes=tuple(notes))


def _factories_of_libraries(
    taken: Collection[str], wanted: Collection[str], notes: list[str]
) -> list[EpFactory]:
    """Those of installed wheels, whose names onnxruntime itself has not ``taken``.

    One that could only emulate a device, for which nobody asks, becomes a note where others are not
    ``wanted`` alone.
    """
    factories: list[EpFactory] = []
    notes += ep_library_notes()
    for library in installed_ep_libraries():
        factory = _library_factory(library)
        if library.ep_name in taken:
            notes.append(displaced_note(library))
        elif factory.missing_device_note:
            notes += (
                [factory.missing_device_note] if library.ep_name in wanted or not wanted else []
            )
        else:
            factories.append(factory)
    return factories


def _library_factory(library: EpLibrary) -> EpLibraryFactory:
    from ortpkg.providers.ep_library_factory import EpLibraryFactory  # few have such a wheel

    return EpLibraryFactory(library)


def plugin_names() -> tuple[str, ...]:
    """Names of the installed plug-ins, sorted; none is imported."""
    return tuple(installed_plugins())


def _built_in(name: str) -> Callable[[], EpFactory] | None:
    return BUILT_IN_FACTORIES.get(name) or NAMED_FACTORIES.get(name)


def _factory_of_plugin(plugin: Plugin, notes: list[str]) -> list[EpFactory]:
    """Its factory, if it can be used here.

    What is wrong with it, or hides others, becomes a note.
    """
    if _built_in(plugin.name) is not None:
        notes.append(_name_clash(plugin))
        return []
    if plugin.rivals:
        notes.append(
            f"{plugin} is used; {', '.join(map(quoted, plugin.rivals))} brings the same name and"
            " is not"
        )
    try:
        return [load_plugin(plugin)]  # whether it is available, its offer tells
    except ExecutionProviderError as error:
        notes.append(str(error))
    return []


@cache
def _warn_of_name_clash(name: str) -> None:
    if name in installed_plugins():
        warnings.warn(_name_clash(installed_plugins()[name]), stacklevel=3)


def _name_clash(plugin: Plugin) -> str:
    return f"{plugin} is not used: the name is a built-in one"


def all_known_names() -> tuple[str, ...]:
    """Return full names of the execution providers with a factory here, usable or not.

    Built-in EPs of onnxruntime are left out. Child processes may ask plug-in libraries for names.
    """
    libraries = (library.ep_name for library in _libraries_here())
    return tuple(
        dict.fromkeys((*BUILT_IN_FACTORIES, *NAMED_FACTORIES, *plugin_names(), *libraries))
    )


def _libraries_here() -> tuple[EpLibrary, ...]:
    return installed_ep_libraries() if installed_distributions() else ()


def is_ep_here(name: str) -> bool:
    """Whether that is the full name of an execution provider: ONNX Runtime's, ours or a plug-in's.

    What is installed here alone is looked up: a name that is none may be a plug-in's elsewhere.
    """
    return is_known_ep(name) or name in all_known_names()


def ep_known_here(text: str) -> str:
    """The full name of an execution provider, as :func:`is_ep_here` has it, by it or an alias.

    UsageError for a name that nobody knows, which is a typo.
    """
    name = resolve_ep_name(text)
    return name if is_known_ep(name) else ep_named(text, all_known_names())


def _unknown_message(asked: str, name: str, backend: str | None) -> str:
    known = all_known_names()
    where = f" on backend {quoted(backend)}" if backend else " here"
    suggestion = suggest_ep_name(asked, known)
    meant = suggestion if suggestion != name else None
    message = unknown_ep_message(asked, known, meant, where=where)
    notes = ep_library_notes() if installed_distributions() else ()
    return "; ".join((message, *notes))
