"""Interface of a native library: it compiles a model, keeps the result, and loads it again.

Loads neither onnx nor the engine, so that a worker process that only computes starts fast.
:mod:`ortpkg.runtime.providers.native_execution_provider` claims sub-graphs and hands them to it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.foundations.isolation.run_watch import WatchedRun
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.allocator import Allocator
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.library_traits import LIBRARY_TRAITS, LibraryTraits, WeightForm
from ortpkg.runtime.providers.session_settings import NO_SETTINGS, SessionSettings

#: Bytes that a library keeps: anything that has a buffer.
Part = bytes | memoryview

#: Parts of weightless contexts: the weights of the group, and its compiled code.
WEIGHTS, COMPILED = "weights", "compiled"

_SIGNATURE = "signature"
_MOST_SIGNATURE_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Run of bytes in a file.

    Attributes:
        path: absolute path of the file.
        offset, nbytes: position and size of the bytes.
        stamp: state of the file when its bytes were judged.
    """

    path: str
    offset: int
    nbytes: int
    stamp: FileStamp


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeWeight:
    """Weight beside the message of a model.

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
    """Model, or a part of one, in the form that a library reads.

    Attributes:
        data: ONNX bytes, without large weights if the library has a ``weight_form`` for them.
        inputs, outputs: their names, in order.
        config_entries: config entries of the session for the library, by ONNX Runtime's keys.
        is_kept: True if the compiled model will be exported: some libraries prepare that while they
            compile.
        weights: weights that are passed by name. Their memory must live as long as the compiled
            model.
        folder: absolute path of the folder in which locations of external data in ``data`` begin;
            "" if it has none.
        files: files that these locations lead to, by absolute path, as the session opened them.
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
                raise replaced_file_error(path)


def replaced_file_error(path: str) -> ModelFileError:
    """Return the error for a file that was replaced since the session opened it."""
    return ModelFileError(f"{quoted(path)} was replaced while a session was being made from it")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """Parts that a library keeps of a group of models.

    Attributes:
        weights: weights of all models, each distinct one once.
        compiled: compiled code of all models, without weights.
        members: other parts of each model, in order.
    """

    weights: Part
    compiled: Part
    members: Sequence[Mapping[str, Part]]


class CompiledModel(Protocol):
    """Model inside a native library."""

    def compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        """Run the model on arrays; return new arrays in the order of its outputs.

        Thread-safe. Ends early, with the error of ``context.check_cancelled``, when the run is to
        end.

        Args:
            inputs: arrays in the order of the model's inputs.
            context: context of the run.
        """
        ...

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Return where the library really runs the model.

        Empty if it states nothing beyond what was asked of it.
        """
        ...


class NativeLibrary(ABC):
    """One device of a native library, in one session, in this process or in a child.

    Attributes:
        backend: "openvino", "onnxruntime", a plug-in's name.
        in_child: True if it runs in a child process already.
    """

    backend: str = ""
    in_child: bool = False

    @property
    def traits(self) -> LibraryTraits:
        """Facts about the library; the default for one that is not in ``LIBRARY_TRAITS``."""
        return LIBRARY_TRAITS.get(self.backend, LibraryTraits())

    @property
    def weight_form(self) -> WeightForm:
        """Form in which it takes a model's large weights."""
        return self.traits.weight_form

    #: Session options that concern libraries.
    settings: SessionSettings = NO_SETTINGS

    def use_settings(self, settings: SessionSettings) -> None:
        """Use the session's settings; called before the library is opened."""
        self.settings = settings

    def unapplied(self, settings: SessionSettings) -> tuple[str, ...]:
        """Return the names of settings that the library does not obey."""
        return self.traits.unapplied(settings)

    @abstractmethod
    def compile_model(self, model: NativeModel) -> CompiledModel:
        """Compile a model; raises whatever the library raises."""

    @property
    def unshared_reason(self) -> str:
        """Reason why kept models cannot share weights; "" for a GroupLibrary that can do it."""
        return "its contexts carry their weights inside, each its own"

    def describe_environment(self) -> ContextDescriptor | None:
        """Return what kept models depend on here and now; None if the library keeps nothing."""
        return None

    @property
    def memory(self) -> Allocator | None:
        """Memory of its device, where compiled models read and write; None for the CPU's."""
        return None

    def opened(self) -> None:  # noqa: B027 - optional to implement
        """Wait until the library is ready.

        Raises:
            ExecutionProviderError: it cannot be loaded.
            InvalidSessionOptionError: it refuses settings.
        """

    def close(self) -> None:  # noqa: B027 - optional to implement
        """Free what belongs to the library."""


class ContextLibrary(NativeLibrary):
    """Library that keeps what it compiled; ``describe_environment`` says what that depends on."""

    @abstractmethod
    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        """Return the parts to keep of ``compiled``, which was made from ``model``."""

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
    """Library that also loads a group's models, whose weights lie beside them."""

    @abstractmethod
    def import_member(self, parts: Mapping[str, Part], file: PartsFile | None) -> CompiledModel:
        """Return one model of a group from its parts; raises whatever the library raises.

        Args:
            parts: parts of that model that :meth:`GroupLibrary.export_group` returned.
            file: file that they were mapped from; None if the library cannot map them from a file.
        """


class GroupLibrary(WeightlessLibrary):
    """Library that compiles models together, so that they have one set of weights."""

    @abstractmethod
    def export_group(self, models: Sequence[NativeModel], weights_offset: int) -> GroupParts:
        """Return the parts of several models that have one set of weights.

        Raises whatever the library raises.

        Args:
            models: models to compile together.
            weights_offset: offset at which the weights will begin in the file made of the parts.
        """

    @abstractmethod
    def group_place(self, parts: Mapping[str, Part]) -> Mapping[str, int]:
        """Return what ``import_member`` passes to the library beside the group's parts.

        Members with equal results load alike.

        Raises:
            ValueError: the parts are not those of a member.
        """


def signature_part(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Part]:
    """Return names of inputs and outputs in order, as a part to keep beside the library's."""
    return {_SIGNATURE: json.dumps({"inputs": list(inputs), "outputs": list(outputs)}).encode()}


def read_signature(parts: Mapping[str, Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of inputs and outputs that :func:`signature_part` wrote.

    Raises:
        ValueError: the part is missing, or something else.
    """
    part = parts.get(_SIGNATURE)
    if part is None or memoryview(part).nbytes > _MOST_SIGNATURE_NBYTES:
        raise ValueError("the context has no readable signature")
    document = json.loads(bytes(part))
    names = (document["inputs"], document["outputs"]) if isinstance(document, dict) else ((), ())
    if not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group) for group in names
    ):
        raise ValueError("the signature of the context is no list of names")
    return tuple(names[0]), tuple(names[1])


def required_part(parts: Mapping[str, Part], name: str) -> Part:
    """Return the part of that name; ValueError if the context has none."""
    if name not in parts:
        raise ValueError(
            f"the context has no part {quoted(name)}; it has"
            f" {', '.join(map(quoted, parts)) or 'none'}"
        )
    return parts[name]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, quoted; its type if the message is empty."""
    return quoted(next(iter(str(error).strip().splitlines()), type(error).__name__))
