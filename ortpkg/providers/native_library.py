"""What a native library brings: it compiles a model, keeps the result, and takes it back.

Loads neither onnx nor the engine, so that a worker process that only computes starts fast. What
claims sub-graphs and hands them over is :mod:`ortpkg.providers.native_execution_provider`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ortpkg.ep_context.ep_context_checks import PartsFile
from ortpkg.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.errors import ModelFileError, quoted
from ortpkg.isolation.run_watch import WatchedRun
from ortpkg.providers.allocator import Allocator
from ortpkg.providers.execution_provider import BackendPlacement
from ortpkg.providers.library_traits import LIBRARY_TRAITS, LibraryTraits, WeightForm
from ortpkg.providers.session_settings import NO_SETTINGS, SessionSettings
from ortpkg.storage.file_stamp import FileStamp, file_stamp

#: Bytes of what a library keeps: anything that has a buffer.
Part = bytes | memoryview

#: Parts of weightless contexts: the weights of the group, and what was compiled of it.
WEIGHTS, COMPILED = "weights", "compiled"

_SIGNATURE = "signature"
_MOST_SIGNATURE_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A run of bytes in a file.

    Attributes:
        path: absolute path of the file.
        offset, nbytes: where they lie.
        stamp: what the file system said of the file when its bytes were judged.
    """

    path: str
    offset: int
    nbytes: int
    stamp: FileStamp


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeWeight:
    """A weight beside the message of a model.

    Attributes:
        element_type: number of ONNX's ``TensorProto.DataType``.
        shape: shape of the tensor.
        data: elements in the layout of ONNX's ``raw_data``, in mapped or own memory; may be
            unaligned if the library copies them.
        file: file that ``data`` is mapped from; None for own memory.
    """

    element_type: int
    shape: tuple[int, ...]
    data: memoryview
    file: FileRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeModel:
    """A model, or a part of one, as a library reads it.

    Attributes:
        data: ONNX bytes, without large weights if the library has a ``weight_form`` for them.
        inputs, outputs: their names, in order.
        config_entries: what the library must know of the session, by ONNX Runtime's keys.
        is_kept: whether what is compiled of it will be exported: some libraries make that on the
            way.
        weights: those that are handed over by name. Their memory must live as long as what is
            compiled of them.
        folder: absolute path of the folder in which locations of external data in ``data`` begin;
            "" if it has none.
        files: the files that these locations lead to, by absolute path, as the session opened them.
        weights_nbytes: size of all weights outside of ``data``.
    """

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    config_entries: Mapping[str, str] = field(default_factory=dict)
    is_kept: bool = False
    weights: Mapping[str, NativeWeight] = field(default_factory=dict)
    folder: str = ""
    files: Mapping[str, FileStamp] = field(default_factory=dict)
    weights_nbytes: int = 0

    def verify_files(self) -> None:
        """Raise ModelFileError if a file that ``data`` names was replaced since it was opened."""
        for path, stamp in self.files.items():
            if not stamp.is_same_content(file_stamp(Path(path))):
                raise replaced_file(path)


def replaced_file(path: str) -> ModelFileError:
    """Return the error of a file that is another one than when the session opened it."""
    return ModelFileError(f"{quoted(path)} was replaced while a session was being made from it")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """What a library keeps of a group of models.

    Attributes:
        weights: of all of them, each distinct one once.
        compiled: what was compiled of all of them, without weights.
        members: what else there is of each, in order.
    """

    weights: Part
    compiled: Part
    members: Sequence[Mapping[str, Part]]


class CompiledModel(Protocol):
    """A model inside a native library."""

    def compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        """Runs it on arrays in the order of its inputs; new arrays in the order of its outputs.

        Thread-safe.

        Ends early, with the error of ``context.check_cancelled``, where the run is to end.
        """
        ...

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Where the library really runs it.

        Empty where it tells nothing beyond what was asked of it.
        """
        ...


class NativeLibrary(ABC):
    """One device of a native library, in one session, in this process or in a child.

    Attributes:
        backend: "openvino", "onnxruntime", a plug-in's name.
        in_child: whether it runs in a child process already.
    """

    backend: str = ""
    in_child: bool = False

    @property
    def traits(self) -> LibraryTraits:
        """What is special about the library.

        The default for a library that is not in ``LIBRARY_TRAITS``.
        """
        return LIBRARY_TRAITS.get(self.backend, LibraryTraits())

    @property
    def weight_form(self) -> WeightForm:
        """Form in which it takes a model's large weights."""
        return self.traits.weight_form

    #: What the session's options say to libraries.
    settings: SessionSettings = NO_SETTINGS

    def use_settings(self, settings: SessionSettings) -> None:
        """Called before it is opened."""
        self.settings = settings

    def unapplied(self, settings: SessionSettings) -> tuple[str, ...]:
        """Names of what ``settings`` say and the library does not obey."""
        return self.traits.unapplied(settings)

    @abstractmethod
    def compile_model(self, model: NativeModel) -> CompiledModel:
        """Compiles. Raises whatever the library raises."""

    @property
    def unshared_reason(self) -> str:
        """Why kept models cannot share weights; "" for a GroupLibrary that can do so here."""
        return "its contexts carry their weights inside, each its own"

    def describe_environment(self) -> ContextDescriptor | None:
        """What kept models depend on here and now; None where it keeps nothing."""
        return None

    @property
    def memory(self) -> Allocator | None:
        """Memory of its device, where compiled models read and write; None for the CPU's."""
        return None

    def opened(self) -> None:  # noqa: B027 - optional to implement
        """Waits until it is ready.

        Raises ExecutionProviderError where it cannot be loaded, InvalidSessionOptionError where it
        refuses settings.
        """

    def close(self) -> None:  # noqa: B027 - optional to implement
        """Frees what belongs to it."""


class ContextLibrary(NativeLibrary):
    """A library that keeps what it compiled; ``describe_environment`` says what that depends on."""

    @abstractmethod
    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        """What to keep of ``compiled``, which was made from ``model``."""

    @abstractmethod
    def import_model(
        self, parts: Mapping[str, Part], file: PartsFile | None = None
    ) -> CompiledModel:
        """Return a compiled model from its parts; raises whatever the library raises.

        Args:
            parts: result of :meth:`export_model`.
            file: file that the parts are mapped from; None if they are in memory.
        """


class WeightlessLibrary(ContextLibrary):
    """A library that also loads a group's models, beside which their weights lie."""

    @abstractmethod
    def import_member(self, parts: Mapping[str, Part], file: PartsFile | None) -> CompiledModel:
        """One model of a group from what :meth:`GroupLibrary.export_group` kept of it.

        Raises whatever the library raises.

        Args:
            parts: of that model.
            file: where they were mapped from; None where the library cannot map them from a file.
        """


class GroupLibrary(WeightlessLibrary):
    """A library that compiles models together, so that they have one set of weights."""

    @abstractmethod
    def export_group(self, models: Sequence[NativeModel], weights_offset: int) -> GroupParts:
        """What to keep of several models so that they have one set of weights.

        Raises whatever the library raises.

        Args:
            models: to be compiled together.
            weights_offset: where the weights will begin in the file that is made of the parts.
        """

    @abstractmethod
    def group_place(self, parts: Mapping[str, Part]) -> Mapping[str, int]:
        """What ``import_member`` tells the library beside the group's parts: alike, it loads alike.

        ValueError where the parts are not what was kept of a member.
        """


def signature_part(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Part]:
    """Names of inputs and outputs in order, as a part to be kept beside what a library kept."""
    return {_SIGNATURE: json.dumps({"inputs": list(inputs), "outputs": list(outputs)}).encode()}


def read_signature(parts: Mapping[str, Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What :func:`signature_part` wrote: inputs, outputs.

    ValueError where it is missing or not that.
    """
    part = parts.get(_SIGNATURE)
    if part is None or memoryview(part).nbytes > _MOST_SIGNATURE_NBYTES:
        raise ValueError("the context has no readable signature")
    document = json.loads(bytes(part))
    names = (document["inputs"], document["outputs"]) if isinstance(document, dict) else ((), ())
    if not all(
        isinstance(each, list) and all(isinstance(name, str) for name in each) for each in names
    ):
        raise ValueError("the signature of the context is no list of names")
    return tuple(names[0]), tuple(names[1])


def required_part(parts: Mapping[str, Part], name: str) -> Part:
    """The part of that name; ValueError where the context has none."""
    if name not in parts:
        raise ValueError(
            f"the context has no part {quoted(name)}; it has"
            f" {', '.join(map(quoted, parts)) or 'none'}"
        )
    return parts[name]


def first_line(error: BaseException) -> str:
    """The first line of what was raised, quoted; its type where it says nothing."""
    return quoted(next(iter(str(error).strip().splitlines()), type(error).__name__))
