"""Table of execution providers: built-in ones, those of the bridge, plug-ins.

A plug-in (``plugins.py``) is asked only when a variant, an option or a caller names it. A plug-in
cannot take a built-in name; a session says so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.ep_names import (
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
from ortpkg.foundations.errors import ExecutionProviderError, UnknownExecutionProviderError, quoted
from ortpkg.foundations.versions import is_same_version
from ortpkg.machine.hardware import HardwareDevice
from ortpkg.runtime.providers.cpu_factory import CpuEpFactory
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    EpLibrary,
    displaced_note,
    ep_library_notes,
    ep_library_of,
    installed_ep_libraries,
)
from ortpkg.runtime.providers.ep_factory import CpuDevicesEpFactory, EpFactory
from ortpkg.runtime.providers.llvm.llvm_compiler import has_compiler
from ortpkg.runtime.providers.onnxruntime_factory import (
    OnnxRuntimeEpFactory,
    installed_distributions,
    list_ep_names,
)
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.providers.plugins import (
    BUILT_IN_BACKENDS,
    Plugin,
    installed_plugins,
    load_plugin,
)

if TYPE_CHECKING:
    from ortpkg.runtime.providers.ep_library_factory import EpLibraryFactory


def _llvm_factory() -> EpFactory:
    from ortpkg.runtime.providers.llvm.llvm_factory import LlvmEpFactory  # only where it is offered

    return LlvmEpFactory()


#: EP name → factory of the backend of our own. The onnxruntime bridge adds every EP of an installed
#: onnxruntime.
BUILT_IN_FACTORIES: dict[str, Callable[[], EpFactory]] = {
    OPENVINO_EP: OpenVinoEpFactory,
    CPU_EP: CpuEpFactory,
}
#: Built in too, but offered only if they are named, or if their compiler is installed.
NAMED_FACTORIES: dict[str, Callable[[], EpFactory]] = {
    LLVM_EP: _llvm_factory,
}


def compiling_eps() -> tuple[str, ...]:
    """Return the built-in EPs to suggest for compiling; no device is asked."""
    return (LLVM_EP, *((OPENVINO_EP,) if OpenVinoEpFactory().is_available() else ()))


class AvailableFactories(NamedTuple):
    """Factories that can be asked here, in default priority order, and notes on failures."""

    factories: tuple[EpFactory, ...]
    notes: tuple[str, ...] = ()


def find_factory(ep_name: str, *, backend: str | None = None) -> EpFactory:
    """Return the factory of an EP (or alias) on ``backend``, or on the first backend that has it.

    Without a backend: a built-in one, then a plug-in, then the onnxruntime bridge: onnxruntime's
    own, then a wheel's. The factory's library need not be installed; ``is_available`` tells. A
    built-in one without its library is passed over if the bridge has the EP.

    Raises:
        UnknownExecutionProviderError: nothing here has the name.
        ExecutionProviderError: a plug-in cannot be loaded.
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
    """Return the factory that is installed here for exactly this EP, backend and version, if any.

    A provider of ours is this ortpkg's if a profile leaves its version open. Plug-ins are not
    imported. A child process asks an onnxruntime of that version for its EPs; if that fails, the
    result is None.
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
    """Return every factory whose library is installed, in default priority order.

    A backend or plug-in that fails is left out and noted.

    Args:
        hardware: hardware of the machine.
        named: names of EPs; plug-ins are included only if they are named here.
        with_libraries: True to include EPs that wheels bring for onnxruntime.
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
        ep_names = list_ep_names(hardware)
        factories += [OnnxRuntimeEpFactory(name) for name in ep_names]
        if ep_names and with_libraries:
            factories += _factories_of_libraries(ep_names, wanted, notes)
    except ExecutionProviderError as error:
        notes.append(str(error))
    for name in sorted(wanted & set(installed_plugins())):
        factories += _factory_of_plugin(installed_plugins()[name], notes)
    if len(installed_distributions()) > 1:
        names = ", ".join(distribution.name for distribution in installed_distributions())
        notes.append(f"several distributions of onnxruntime overwrite each other here: {names}")
    ordered = sorted(
        factories,
        key=lambda factory: (ep_priority(factory.ep_name), factory.ep_name, factory.backend),
    )
    return AvailableFactories(factories=tuple(ordered), notes=tuple(notes))


def _factories_of_libraries(
    built_in: Collection[str], wanted: Collection[str], notes: list[str]
) -> list[EpFactory]:
    """Return the factories of libraries for onnxruntime, such as those of wheels.

    A library that could only emulate a device, which nobody asks for, becomes a note unless only
    other EPs are wanted.

    Args:
        built_in: EPs that onnxruntime itself has; a library with the same EP becomes a note.
        wanted: names of EPs that the caller names.
        notes: list to which notes are added.
    """
    factories: list[EpFactory] = []
    notes += ep_library_notes()
    for library in installed_ep_libraries():
        factory = _library_factory(library)
        if library.ep_name in built_in:
            notes.append(displaced_note(library))
        elif factory.missing_device_note:
            notes += (
                [factory.missing_device_note] if library.ep_name in wanted or not wanted else []
            )
        else:
            factories.append(factory)
    return factories


def _library_factory(library: EpLibrary) -> EpLibraryFactory:
    from ortpkg.runtime.providers.ep_library_factory import (
        EpLibraryFactory,  # few have such a wheel
    )

    return EpLibraryFactory(library)


def plugin_names() -> tuple[str, ...]:
    """Return the names of the installed plug-ins, sorted; none is imported."""
    return tuple(installed_plugins())


def _built_in(name: str) -> Callable[[], EpFactory] | None:
    return BUILT_IN_FACTORIES.get(name) or NAMED_FACTORIES.get(name)


def _factory_of_plugin(plugin: Plugin, notes: list[str]) -> list[EpFactory]:
    """Return a plug-in's factory, if it can be used here.

    A fault, or a plug-in that hides others, becomes a note.
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
        return [load_plugin(plugin)]  # its offer shows whether it is available
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
    """Return True for the full name of an execution provider: ONNX Runtime's, ours or a plug-in's.

    Only installed plug-ins count: a name that is unknown here may be a plug-in's elsewhere.
    """
    return is_known_ep(name) or name in all_known_names()


def ep_known_here(text: str) -> str:
    """Return the full name of an execution provider that :func:`is_ep_here` knows.

    ``text`` is that name or an alias.

    Raises:
        UsageError: nobody knows the name, so that it is a typo.
    """
    name = resolve_ep_name(text)
    return name if is_known_ep(name) else ep_named(text, all_known_names())


def _unknown_message(text: str, name: str, backend: str | None) -> str:
    names = all_known_names()
    where = f" on backend {quoted(backend)}" if backend else " here"
    suggestion = suggest_ep_name(text, names)
    meant = suggestion if suggestion != name else None
    message = unknown_ep_message(text, names, meant, where=where)
    notes = ep_library_notes() if installed_distributions() else ()
    return "; ".join((message, *notes))
