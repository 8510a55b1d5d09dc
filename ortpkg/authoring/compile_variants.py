"""``ortpkg compile``: adds compiled variants to a package, next to those they are made from.

Everything is compiled into a temporary folder first, in a child process; then all variants join the
package in one change. Whatever goes wrong before, there is the package as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.agreement import differences
from ortpkg.authoring.compile_folder import compile_folder
from ortpkg.authoring.compile_wishes import CompileWishes, default_name, kinds_of
from ortpkg.authoring.document_edits import adding_variants, variant_folder
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import (
    NewVariant,
    Notify,
    PreparedVariant,
    check_new_name,
    prepare_variants,
)
from ortpkg.authoring.package_documents import ComponentEntry
from ortpkg.authoring.package_on_disk import locked_package
from ortpkg.authoring.package_plan import check_intact
from ortpkg.authoring.sample_tolerances import samples_with_copied_tolerances
from ortpkg.authoring.variant_entry import VariantEntry
from ortpkg.authoring.variant_files import data_folder_of
from ortpkg.devices.hardware import DeviceType
from ortpkg.documents.frozen import EMPTY
from ortpkg.ep_names import CPU_EP, resolve_ep_name, stated_ep
from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.machine_code.cpu_targets import (
    BFLOAT_PRECISION,
)
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.changes.transaction import PackageChange, commit_change, is_committed
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.named_parts import component_named, verify_variants_known
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.reader import open_package
from ortpkg.providers.ep_library_target import precision_options
from ortpkg.selection.variant_facts import QUANTIZATION_FACT, Precision, precision_of
from ortpkg.session.compile_models import CompiledModel, CompileJob, CompileRequest, compile_models
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress

#: What the metadata of a compiled variant says of its own files; the rest is what its source's
#: says.
_OWN_FACTS = ("nodes", "nbytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledVariant:
    """A variant that was made.

    Attributes:
        component, name: of it.
        source: the variant that it was compiled from.
        folder: relative to the package root.
        compiled: what the compiler made.
        entry: what the documents say of it.
    """

    component: str
    name: str
    source: str
    folder: str
    compiled: CompiledModel
    entry: VariantEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """One variant that is to be made of ``source``."""

    component: ComponentInfo
    source: VariantInfo
    name: str
    provider_options: Mapping[str, str] = field(default_factory=lambda: EMPTY)


def compile_variants(
    root: str | PathLike[str],
    wishes: CompileWishes,
    *,
    notify: Notify,
    progress: Progress | None = None,
    operations: FileOperations | None = None,
    on_commit: Callable[[], None] = lambda: None,
) -> list[CompiledVariant]:
    """Compiles plain variants of a package and adds what comes out as variants of their own.

    ``on_commit`` is called once the variants are in the package. An interrupt before leaves the
    package as it was; one that comes so late that they are in it already is passed over, and they
    are returned.

    Constraints (EP, device, architecture, compatibility info) come from the EP, by way of the
    context models.

    Raises:
        UnknownComponentError: no such component or variant. UsageError: a name for several
            variants, contexts that are to be both embedded and shared.
        AuthoringError: nothing plain to compile, a name is taken, or the disk is full.
        CompileError, NoSuitableVariantError: the EP is not here, or could not compile; nothing was
            changed.
        DigestMismatchError: the package is damaged.
    """
    target = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    if wishes.is_embedded and wishes.shares_weights:
        raise UsageError(
            "contexts embedded in their models have nothing to share: embed them, or share weights"
        )
    check_is_not_installed(target)
    package = open_package(target)
    limits = LoadControl(
        memory_limit_nbytes=wishes.memory_limit_nbytes,
        timeout_s=wishes.timeout_s,
        what="compiling",
    )
    with load_limits(limits):
        targets = _targets(package, wishes)
    check_intact(target, notify=notify, progress=progress)
    with compile_folder() as folder:
        groups = _groups(package, targets, wishes, notify)
        made = [
            _compile_group(group, wishes, folder / str(number), notify)
            for number, group in enumerate(groups)
        ]
        with locked_package(target, notify=notify, operations=operations) as package:
            change, variants = _adding(package, groups, made)
            try:
                commit_change(target, change, operations=operations, progress=progress)
                on_commit()
            except KeyboardInterrupt:
                if not is_committed(target, change):
                    raise
                on_commit()
    return variants


def _targets(package: PackageInfo, wishes: CompileWishes) -> list[_Target]:
    components = (
        package.components
        if wishes.component is None
        else (component_named(package, wishes.component),)
    )
    found = [
        _Target(
            component=component,
            source=source,
            name=wishes.name or default_name(source.name, short, wishes),
            provider_options=options,
        )
        for component in components
        for source in _sources(component, wishes)
        for short, options in kinds_of(wishes)
    ]
    known = dict.fromkeys(each.name for component in components for each in component.variants)
    whose = components[0] if len(components) == 1 else package
    verify_variants_known(whose, wishes.variants, list(known))
    for component in components:
        names = [each.name for each in found if each.component is component]
        if wishes.name is not None and len(names) > 1:
            raise UsageError(
                f"{len(names)} variants of {quoted(component.name)} cannot all be"
                f" {quoted(wishes.name)}"
            )
        for name in names:
            _check_is_free(component, name)
    return found


def _sources(component: ComponentInfo, wishes: CompileWishes) -> list[VariantInfo]:
    if wishes.variants:
        named = [each for each in component.variants if each.name in wishes.variants]
        for each in named:
            if reason := _why_not_plain(each):
                raise AuthoringError(f"variant {quoted(each.name)} cannot be compiled: {reason}")
        return named
    ep = resolve_ep_name(wishes.ep)
    plain = [each for each in component.variants if _why_not_plain(each) is None]
    for eps in ((None, CPU_EP), (ep,)):
        for each in plain:
            if stated_ep(each.constraints.ep) in eps:
                return [each]
    raise AuthoringError(
        f"component model {quoted(component.name)} has no plain variant for any EP, {CPU_EP} or"
        f" {ep}: name one with --variant"
    )


def _why_not_plain(variant: VariantInfo) -> str | None:
    if variant.model_path is None:
        return "it is a set of files, not one model"
    facts = read_model_facts(variant.model_path)
    if not facts.has_contexts:
        return None
    return (
        "it is compiled already, by"
        f" {', '.join(map(quoted, facts.context_sources)) or 'nobody that it names'}"
    )


def _check_is_free(component: ComponentInfo, name: str) -> None:
    check_new_name(
        "variant",
        name,
        sorted({n for each in component.variants for n in (each.name, each.directory.name)}),
    )


def _groups(
    package: PackageInfo, targets: Sequence[_Target], wishes: CompileWishes, notify: Notify
) -> list[list[_Target]]:
    """Targets that are compiled together, into one folder."""
    if not wishes.shares_weights:
        return [[each] for each in targets]
    if package.format is PackageFormat.COMPONENT and all(
        _is_inline(package, each.component) for each in targets
    ):
        return [list(targets)]
    names = dict.fromkeys(each.component.name for each in targets)
    if len(names) > 1:
        notify(
            "component models of this package cannot share a folder, so each gets a binary of its"
            " own; in a package of the component format whose manifest holds the components"
            " themselves, they share one"
        )
    return [[each for each in targets if each.component.name == name] for name in names]


def _is_inline(package: PackageInfo, component: ComponentInfo) -> bool:
    """Whether the component is inline: its variants' folders are then relative to the root.

    Other components may have the same folders.
    """
    return component.directory == package.root and component.source.document == MANIFEST


def _compile_group(
    group: Sequence[_Target], wishes: CompileWishes, folder: Path, notify: Notify
) -> list[tuple[CompiledModel, PreparedVariant]]:
    folder.mkdir()
    jobs = tuple(_job(each, folder, is_grouped=len(group) > 1) for each in group)
    request = CompileRequest(
        jobs=jobs,
        ep=wishes.ep,
        device=wishes.device,
        backend=wishes.backend,
        provider_options=dict(wishes.provider_options),
        is_embedded=wishes.is_embedded,
        is_shared=wishes.shares_weights and not wishes.is_embedded,
        for_onnxruntime=wishes.for_onnxruntime,
        memory_limit_nbytes=wishes.memory_limit_nbytes,
    )
    models = compile_models(request, timeout_s=wishes.timeout_s, notify=notify)
    session_options = {"ep.share_ep_contexts": "1"} if len(group) > 1 and request.is_shared else {}
    found = []
    for target, model in zip(group, models, strict=True):
        wanted = NewVariant(
            model=model.output,
            name=target.name,
            ep=wishes.ep,
            device=model.device or wishes.device,
            session_options=session_options,
            provider_options=_options_of_variant(wishes, target, model.device),
        )
        (prepared,) = prepare_variants([wanted], notify)
        found.append(
            (model, _with_facts_of_source(prepared, target, is_rounded=wishes.rounds_to_bfloat))
        )
    return found


def _options_of_variant(wishes: CompileWishes, target: _Target, device: str) -> dict[str, str]:
    """The caller's, and what asks onnxruntime's OpenVINO for float32, which no context can."""
    own = {**wishes.provider_options, **target.provider_options}
    if not wishes.for_onnxruntime or device != DeviceType.CPU:
        return own
    return {**precision_options(resolve_ep_name(wishes.ep), own), **own}


def _job(target: _Target, folder: Path, *, is_grouped: bool) -> CompileJob:
    assert target.source.model_path is not None
    stem = "_".join((target.component.name, target.source.name, *target.provider_options.values()))
    data_folder = data_folder_of(target.source)
    return CompileJob(
        model=str(target.source.model_path),
        output=str(
            folder
            / (f"{stem}_ctx.onnx" if is_grouped else f"{target.source.model_path.stem}_ctx.onnx")
        ),
        prefix=f"{stem}_" if is_grouped else "",
        provider_options=dict(target.provider_options),
        data_folder="" if data_folder == target.source.model_path.parent else str(data_folder),
    )


def _with_facts_of_source(
    prepared: PreparedVariant, target: _Target, *, is_rounded: bool
) -> PreparedVariant:
    """Adds the source's facts (types, quantization, accuracy), which hold for what it became.

    Code that rounds what it multiplies says so, where the source computes in more.
    """
    assert prepared.files.facts is not None
    assert target.source.model_path is not None
    before = read_model_facts(target.source.model_path).signature
    if found := differences(prepared.files.facts.signature, before):
        raise AuthoringError(
            f"what the compiler made of variant {quoted(target.source.name)} cannot stand for it:"
            f" {'; '.join(found)}"
        )
    own = {key: value for key, value in prepared.entry.metadata.items() if key in _OWN_FACTS}
    stated = dict(target.source.metadata) or dict(prepared.entry.metadata)
    if is_rounded and (precision_of(stated) or Precision.FP32) > Precision.FP16:
        own[QUANTIZATION_FACT] = BFLOAT_PRECISION
    return replace(prepared, entry=replace(prepared.entry, metadata={**stated, **own}))


def _adding(
    package: PackageInfo,
    groups: Sequence[Sequence[_Target]],
    made: Sequence[Sequence[tuple[CompiledModel, PreparedVariant]]],
) -> tuple[PackageChange, list[CompiledVariant]]:
    """One change with all variants, on the package as it is now."""
    joining: dict[str, dict[str, VariantEntry]] = {}
    directories: dict[str, dict[str, Path]] = {}
    variants: list[CompiledVariant] = []
    for group, results in zip(groups, made, strict=True):
        first = group[0]
        folder = variant_folder(
            package, first.component.name, _folder_name(package, first, len(group))
        )
        directories[folder] = {
            path: file for _, each in results for path, file in each.files.sources.items()
        }
        for target, (compiled, prepared) in zip(group, results, strict=True):
            component = package.component(target.component.name)
            if component is None:
                raise AuthoringError(
                    f"component model {quoted(target.component.name)} has gone meanwhile"
                )
            _check_is_free(component, target.name)
            entry = prepared.entry
            if len(group) > 1:
                place = (package.root / folder).relative_to(component.directory).as_posix()
                entry = replace(entry, model_id=Path(folder).name, directory=place)
            joining.setdefault(component.name, {})[target.name] = entry
            variants.append(
                CompiledVariant(
                    component=component.name,
                    name=target.name,
                    source=target.source.name,
                    folder=folder,
                    compiled=compiled,
                    entry=entry,
                )
            )
    copies = [(each.component, each.source, each.name) for each in variants]
    documents = (
        *adding_variants(
            package, {name: ComponentEntry(variants=each) for name, each in joining.items()}
        ),
        *samples_with_copied_tolerances(package, copies),
    )
    return PackageChange(documents=documents, new_directories=directories), variants


def _folder_name(package: PackageInfo, first: _Target, count: int) -> str:
    """The variant's name; for a folder that several share, one that no variant of theirs has."""
    if count == 1:
        return first.name
    taken = {
        path.name
        for path in (package.root / variant_folder(package, first.component.name, "x")).parent.glob(
            "*"
        )
    }
    name, number = f"{first.name}-shared", 1
    while name in taken:
        number += 1
        name = f"{first.name}-shared-{number}"
    return name
