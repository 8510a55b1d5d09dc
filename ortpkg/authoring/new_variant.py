"""Prepare a requested variant: check its files and build its entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.authoring.model_facts import complete_constraints, variant_metadata
from ortpkg.authoring.option_typos import meant_session_option
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.variant_files import VariantFiles, collect_variant_files
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.machine.hardware import DeviceType
from ortpkg.package.document_names import METADATA
from ortpkg.package.formats.executor_info import (
    EXTERNAL_INITIALIZERS_FOLDER,
    PATH_SESSION_OPTIONS,
    SOURCE_MODEL,
)
from ortpkg.package.package_info import ComponentInfo, Constraints
from ortpkg.package.paths.path_text import why_not_a_name, why_not_portable
from ortpkg.package.paths.portable_names import folded_name
from ortpkg.package.trust.safe_options import SAFE_SESSION_OPTIONS

_CONFIG_ENTRY = "session."

Notify = Callable[[str], None]
"""Function that is called with each message for the user that is not an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVariant:
    """Variant to be made from a model file or a folder.

    Attributes:
        model: an ONNX file (its data files come along) or a folder with one, or with a
            genai_config.json.
        name: of the variant; None for the file's stem or the folder's name.
        ep: execution provider, by name or alias ("cpu", "cuda", "openvino"); None for the one that
            compiled the model, or else any.
        device: "cpu", "gpu" or "npu"; None for any.
        architecture, compatibility_info: None for the values in the model's own metadata.
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
        """Return the variant of ``--cpu MODEL``: the CPU execution provider on the CPU."""
        return cls(model=model, ep=CPU_EP, device=DeviceType.CPU)

    @classmethod
    def for_gpu(cls, model: Path) -> NewVariant:
        """Return the variant of ``--gpu MODEL``: a GPU; the EP that compiled the model, or any.

        A plain ONNX file runs on every EP that has a GPU (CUDA, DirectML, OpenVINO, ...), and a
        variant without ``ep`` matches any, so naming one would only exclude machines.
        """
        return cls(model=model, device=DeviceType.GPU)

    @classmethod
    def for_npu(cls, model: Path) -> NewVariant:
        """Return the variant of ``--npu MODEL``: an NPU; the EP as for :meth:`for_gpu`."""
        return cls(model=model, device=DeviceType.NPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVariant:
    """Variant whose files were checked: the files to copy, and its entry in the documents."""

    name: str
    files: VariantFiles
    entry: VariantEntry


def prepare_variants(new_variants: Iterable[NewVariant], notify: Notify) -> list[PreparedVariant]:
    """Check the files of each variant, and name variants without a name after their file.

    Two files of one stem (``cpu/model.onnx`` and ``gpu/model.onnx``) are told apart by their
    devices: ``model-cpu``, ``model-gpu``.

    Raises:
        AuthoringError: a name exists already or is not portable.
        UsageError: an unknown device.
        ModelError: as :func:`~ortpkg.authoring.variant_files.collect_variant_files`.
    """
    new_variants = list(new_variants)
    stems = [_stem(new_variant.model) for new_variant in new_variants]
    prepared: list[PreparedVariant] = []
    for new_variant, stem in zip(new_variants, stems, strict=True):
        default = (
            f"{stem}-{new_variant.device}" if stems.count(stem) > 1 and new_variant.device else stem
        )
        name = default if new_variant.name is None else new_variant.name
        check_new_name("variant", name, [other.name for other in prepared])
        prepared.append(_prepare(new_variant, name, notify))
    return prepared


def check_names(components: Iterable[ComponentInfo]) -> None:
    """Raise AuthoringError for a variant whose name cannot be that of a folder.

    In the metadata generation ``model_id`` can name the folder instead; the component generation
    cannot.
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


def check_new_name(noun: str, name: str, existing: Iterable[str], remedy: str = _REMOVE) -> None:
    """Raise AuthoringError for a name that is not portable, or equal to an existing one.

    Names are compared without case. ``remedy`` is the advice for an equal name.
    """
    check_free_name(noun, name, folded_names(existing), remedy)


def folded_names(names: Iterable[str]) -> dict[str, str]:
    """Map each name, folded as on a case-blind file system, to the first such name."""
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(folded_name(name), name)
    return folded


def check_free_name(
    noun: str, name: str, existing: Mapping[str, str], remedy: str = _REMOVE
) -> None:
    """Check a new name as :func:`check_new_name` does, against names that are folded already.

    ``existing`` comes from :func:`folded_names`, so that many names are checked with one folding.
    """
    if reason := why_not_a_name(name) or (
        "is a document's name" if folded_name(name) == METADATA else None
    ):
        raise AuthoringError(f"the {noun} name {quoted(name)} {reason}: choose another one")
    if (other := existing.get(folded_name(name))) is not None:
        is_same = other == name
        same = "" if is_same else f" (where case does not count, {quoted(other)} is the same)"
        raise AuthoringError(
            f"there is a {noun} {quoted(name)} already{same}: {remedy if is_same else _REMOVE}"
        )


def _prepare(new_variant: NewVariant, name: str, notify: Notify) -> PreparedVariant:
    constraints = Constraints(
        ep=new_variant.ep or None,
        device=_checked_device(new_variant.device),
        architecture=new_variant.architecture or None,
        ep_compatibility_info=new_variant.compatibility_info or None,
    )
    files = collect_variant_files(
        new_variant.model, source_model=new_variant.session_options.get(SOURCE_MODEL) or None
    )
    if not files.is_complete:
        notify(
            f"variant {quoted(name)}: its contexts take weights from data files of the model that"
            " was compiled, and that model, which names them, is not here: they must be in the"
            " folder, and the folder be passed"
        )
    if count := _count_links(new_variant.model, files):
        notify(
            f"variant {quoted(name)}: {count} of its files are symbolic links; what they lead to is"
            " copied"
        )
    _check_path_options(new_variant.session_options, files)
    entry = VariantEntry(
        model_file=files.model_file,
        constraints=complete_constraints(
            constraints, files.facts, lambda text: notify(f"variant {quoted(name)}: {text}")
        ),
        session_options=checked_session_options(new_variant.session_options, notify),
        provider_options=checked_provider_options(new_variant.provider_options),
        metadata=variant_metadata(files.facts, files.nbytes),
    )
    return PreparedVariant(name=name, files=files, entry=entry)


def _count_links(model: Path, files: VariantFiles) -> int:
    folder = model if model.is_dir() else model.parent
    return sum((folder / path).is_symlink() for path in files.sources)


def _stem(model: Path) -> str:
    """Return the file's name without its extension, or the folder's name.

    "." and ".." give the names of the folders that they stand for.
    """
    real = model if model.name not in ("", "..") else model.resolve()
    return real.name if model.is_dir() else real.stem


def _checked_device(device: str | None) -> str | None:
    if not device:
        return None
    types = [str(member) for member in DeviceType]
    if device.lower() not in types:
        raise UsageError(
            f"device {quoted(device)} is none of {', '.join(types)}{did_you_mean(device, types)}"
        )
    return device.lower()


def _checked_options(kind: str, options: Mapping[str, object]) -> Mapping[str, str]:
    for key, value in options.items():
        if not key or not isinstance(value, str):
            raise UsageError(
                f"the {kind} option {quoted(key)} is {quoted(value)}: keys and values are texts,"
                " e.g. '1'"
            )
    return {key: str(value) for key, value in options.items()}


def checked_session_options(options: Mapping[str, object], notify: Notify) -> Mapping[str, str]:
    """Return session options as they are stored; likely typing errors are reported to ``notify``.

    Unknown keys are allowed, since there are more entries than ortpkg knows.

    Raises:
        UsageError: a key is (nearly) the name of an attribute of SessionOptions, which is no config
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
    """Return provider options as they are stored; UsageError for a value that is no text."""
    return _checked_options("provider", options)


def _check_path_options(options: Mapping[str, str], files: VariantFiles) -> None:
    """Raise AuthoringError if a session option names a path that the variant's folder will lack."""
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
