"""A variant that somebody asks for, and what becomes of it once its files have been looked at."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.authoring.model_facts import complete_constraints, variant_metadata
from ortpkg.authoring.option_typos import meant_session_option
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.variant_files import VariantFiles, collect_variant_files
from ortpkg.devices.hardware import DeviceType
from ortpkg.documents.frozen import EMPTY
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.document_names import METADATA
from ortpkg.package.formats.executor_info import (
    EXTERNAL_INITIALIZERS_FOLDER,
    PATH_SESSION_OPTIONS,
    SOURCE_MODEL,
)
from ortpkg.package.package_info import ComponentInfo, Constraints
from ortpkg.package.paths.path_text import why_not_a_name, why_not_portable
from ortpkg.trust.safe_options import SAFE_SESSION_OPTIONS

_CONFIG_ENTRY = "session."

Notify = Callable[[str], None]
"""Told, a sentence each, what a user should know though it is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVariant:
    """One variant to be made from a model file or a folder.

    Attributes:
        model: an ONNX file (its data files come along) or a folder with one, or with a
            genai_config.json.
        name: of the variant; left out, the file's stem or the folder's name.
        ep: execution provider, by name or alias ("cpu", "cuda", "openvino"); left out, the one that
            compiled the model, or else any.
        device: "cpu", "gpu" or "npu"; left out, any.
        architecture, compatibility_info: left out, what the model's own metadata says.
        session_options, provider_options: kept with the variant.
    """

    model: Path
    name: str | None = None
    ep: str | None = None
    device: str | None = None
    architecture: str | None = None
    compatibility_info: str | None = None
    session_options: Mapping[str, str] = EMPTY
    provider_options: Mapping[str, str] = EMPTY

    @classmethod
    def for_cpu(cls, model: Path) -> NewVariant:
        """What ``--cpu MODEL`` means: the CPU execution provider on the CPU, for any model."""
        return cls(model=model, ep=CPU_EP, device=DeviceType.CPU)

    @classmethod
    def for_gpu(cls, model: Path) -> NewVariant:
        """What ``--gpu MODEL`` means: a GPU, with the EP that compiled the model, or else any EP.

        A plain ONNX file runs on every EP that has a GPU (CUDA, DirectML, OpenVINO, ...), and a
        variant without ``ep`` matches any, so naming one would only exclude machines.
        """
        return cls(model=model, device=DeviceType.GPU)

    @classmethod
    def for_npu(cls, model: Path) -> NewVariant:
        """What ``--npu MODEL`` means: an NPU; the EP as for :meth:`for_gpu`."""
        return cls(model=model, device=DeviceType.NPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVariant:
    """A variant whose files were found good: what to copy, and what the documents will say."""

    name: str
    files: VariantFiles
    entry: VariantEntry


def prepare_variants(wanted: Iterable[NewVariant], notify: Notify) -> list[PreparedVariant]:
    """Looks at the files of each variant, and names those that have no name after their file.

    Two files of one stem (``cpu/model.onnx`` and ``gpu/model.onnx``) are told apart by their
    devices: ``model-cpu``, ``model-gpu``.

    Raises AuthoringError for a name that is taken or not portable, UsageError for an unknown
    device, and what :func:`~ortpkg.authoring.variant_files.collect_variant_files` raises.
    """
    wanted = list(wanted)
    stems = [_stem(each.model) for each in wanted]
    prepared: list[PreparedVariant] = []
    for each, stem in zip(wanted, stems, strict=True):
        default = f"{stem}-{each.device}" if stems.count(stem) > 1 and each.device else stem
        name = default if each.name is None else each.name
        check_new_name("variant", name, [other.name for other in prepared])
        prepared.append(_prepare(each, name, notify))
    return prepared


def check_names(components: Iterable[ComponentInfo]) -> None:
    """The metadata generation lets ``model_id`` stand for a name that no folder can have.

    The component generation does not.

    AuthoringError where a variant has such a name.
    """
    for component in components:
        for variant in component.variants:
            if reason := why_not_a_name(variant.name):
                raise AuthoringError(
                    f"variant {quoted(variant.name)} of {quoted(component.name)} {reason}; rename"
                    f" it in {quoted(variant.source.document)}: only the metadata generation has"
                    " such names"
                )


_REMOVE = "choose another name, or remove that one first"


def check_new_name(noun: str, name: str, taken: Iterable[str], remedy: str = _REMOVE) -> None:
    """Refuses a name that is not portable, or that a case-blind file system finds in ``taken``.

    ``remedy`` says what to do where ``name`` itself is taken.
    """
    check_free_name(noun, name, folded_names(taken), remedy)


def folded_names(names: Iterable[str]) -> dict[str, str]:
    """What a case-blind file system takes each name for → the first such name."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(_folded(name), name)
    return found


def check_free_name(noun: str, name: str, taken: Mapping[str, str], remedy: str = _REMOVE) -> None:
    """Check a new name as :func:`check_new_name` does, against names that are folded already.

    ``taken`` comes from :func:`folded_names`, so that many names are checked with one folding.
    """
    if reason := why_not_a_name(name) or (
        "is a document's name" if _folded(name) == METADATA else None
    ):
        raise AuthoringError(f"the {noun} name {quoted(name)} {reason}: choose another one")
    if (other := taken.get(_folded(name))) is not None:
        is_same = other == name
        same = "" if is_same else f" (where case does not count, {quoted(other)} is the same)"
        raise AuthoringError(
            f"there is a {noun} {quoted(name)} already{same}: {remedy if is_same else _REMOVE}"
        )


def _prepare(wanted: NewVariant, name: str, notify: Notify) -> PreparedVariant:
    given = Constraints(
        ep=wanted.ep or None,
        device=_checked_device(wanted.device),
        architecture=wanted.architecture or None,
        ep_compatibility_info=wanted.compatibility_info or None,
    )
    files = collect_variant_files(
        wanted.model, source_model=wanted.session_options.get(SOURCE_MODEL) or None
    )
    if not files.is_complete:
        notify(
            f"variant {quoted(name)}: its contexts take weights from data files of the model that"
            " was compiled, and that model, which names them, is not here: they must be in the"
            " folder, and the folder be passed"
        )
    if count := _count_links(wanted.model, files):
        notify(
            f"variant {quoted(name)}: {count} of its files are symbolic links; what they lead to is"
            " copied"
        )
    _check_path_options(wanted.session_options, files)
    entry = VariantEntry(
        model_file=files.model_file,
        constraints=complete_constraints(
            given, files.facts, lambda text: notify(f"variant {quoted(name)}: {text}")
        ),
        session_options=checked_session_options(wanted.session_options, notify),
        provider_options=checked_provider_options(wanted.provider_options),
        metadata=variant_metadata(files.facts, files.nbytes),
    )
    return PreparedVariant(name=name, files=files, entry=entry)


def _count_links(model: Path, files: VariantFiles) -> int:
    folder = model if model.is_dir() else model.parent
    return sum((folder / path).is_symlink() for path in files.sources)


def _stem(model: Path) -> str:
    """The file's name without its extension, or the folder's name.

    "." and ".." by their real names.
    """
    real = model if model.name not in ("", "..") else model.resolve()
    return real.name if model.is_dir() else real.stem


def _checked_device(device: str | None) -> str | None:
    if not device:
        return None
    known = [str(each) for each in DeviceType]
    if device.lower() not in known:
        raise UsageError(
            f"device {quoted(device)} is none of {', '.join(known)}{did_you_mean(device, known)}"
        )
    return device.lower()


def _checked_options(what: str, options: Mapping[str, object]) -> Mapping[str, str]:
    for key, value in options.items():
        if not key or not isinstance(value, str):
            raise UsageError(
                f"the {what} option {quoted(key)} is {quoted(value)}: keys and values are texts,"
                " e.g. '1'"
            )
    return {key: str(value) for key, value in options.items()}


def checked_session_options(options: Mapping[str, object], notify: Notify) -> Mapping[str, str]:
    """As they are to be kept.

    ``notify`` is told of what looks like a typo, since there are entries unknown here.

    UsageError for the name of an attribute of SessionOptions, nearly spelled too: that is no config
    entry.
    """
    for key in options:
        if f"{_CONFIG_ENTRY}{key}" in SAFE_SESSION_OPTIONS:
            raise UsageError(
                f"the session option {quoted(key)} is an attribute of SessionOptions in programs;"
                f" packages name config entries: write {quoted(_CONFIG_ENTRY + key)}"
            )
        meant = meant_session_option(key)
        if meant is not None and "." not in key:
            raise UsageError(
                f"there is no session option {quoted(key)}; did you mean {quoted(meant)}?"
            )
        if meant is not None:
            notify(f"the session option {quoted(key)} is not known; did you mean {quoted(meant)}?")
    return _checked_options("session", options)


def checked_provider_options(options: Mapping[str, object]) -> Mapping[str, str]:
    """As they are to be kept. UsageError for what is no text."""
    return _checked_options("provider", options)


def _check_path_options(options: Mapping[str, str], files: VariantFiles) -> None:
    """AuthoringError where a session option names a path that the variant's folder will lack."""
    for key in PATH_SESSION_OPTIONS:
        value = options.get(key)
        if not value:
            continue
        if reason := why_not_portable(value):
            raise AuthoringError(f"session option {quoted(key)}: {quoted(value)} {reason}")
        folder = f"{value.rstrip('/')}/"
        if key == EXTERNAL_INITIALIZERS_FOLDER and not any(
            path.startswith(folder) for path in files.sources
        ):
            raise AuthoringError(
                f"session option {quoted(key)}: there is no folder {quoted(value)} beside the model"
            )


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
