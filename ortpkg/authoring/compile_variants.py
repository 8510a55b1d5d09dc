"""Add compiled variants to a package, next to their sources (``ortpkg compile``).

A child process compiles everything into a temporary folder; then all variants join the package in
one change. If anything fails before, the package is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.agreement import differences
from ortpkg.authoring.brought_sources import bring_sources
from ortpkg.authoring.compile_folder import compile_folder
from ortpkg.authoring.compile_targets import CompileGroup, CompileTarget, groups_to_compile
from ortpkg.authoring.compile_wishes import CompileWishes, check_wishes
from ortpkg.authoring.compiled_joining import CompiledGroup, CompiledVariant, joining_change
from ortpkg.authoring.derivation_records import derivation_record, groups_to_renew
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import NewVariant, Notify, PreparedVariant, prepare_variants
from ortpkg.authoring.package_on_disk import open_locked_package
from ortpkg.authoring.package_plan import check_intact
from ortpkg.compiler.machine_code.cpu_targets import BFLOAT_PRECISION
from ortpkg.foundations.ep_names import resolve_ep_name
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.machine.hardware import DeviceType
from ortpkg.package.changes.store_guard import check_is_not_installed
from ortpkg.package.changes.transaction import commit_change, is_committed
from ortpkg.package.derived_variants import (
    DERIVED_FACT,
    Derivation,
    DigestsOf,
    recorded_or_computed_digests,
)
from ortpkg.package.formats.executor_info import data_folder_of
from ortpkg.package.reader import open_package
from ortpkg.runtime.providers.ep_library_target import precision_options
from ortpkg.runtime.session.compile_models import (
    CompiledModel,
    CompileJob,
    CompileRequest,
    compile_models,
)
from ortpkg.selection.matching.variant_facts import (
    QUANTIZATION_FACT,
    SHARE_FACT,
    Precision,
    precision_of,
)

__all__ = ["CompiledVariant", "compile_variants"]

#: Metadata of a compiled variant about its own files; the rest is copied from its source.
_OWN_FACTS = ("nodes", "nbytes")


def compile_variants(
    root: str | PathLike[str],
    wishes: CompileWishes,
    *,
    notify: Notify,
    progress: Progress | None = None,
    operations: FileOperations | None = None,
    on_commit: Callable[[], None] = lambda: None,
) -> list[CompiledVariant]:
    """Compile plain variants of a package and add the results as further variants.

    Each result records its source by digest. With ``wishes.renews``, stale variants are compiled
    again; nothing is returned if none is stale. Constraints (EP, device, architecture,
    compatibility info) come from the EP, by way of the context models.

    An interrupt leaves the package as it was, unless the variants are in it already: then it is
    ignored, and they are returned.

    Args:
        root: the package.
        wishes: what to compile, and how.
        notify: called with messages for the user.
        progress: called while files are hashed and copied.
        operations: change the disk.
        on_commit: called once the variants are in the package.

    Raises:
        UnknownComponentError: no such component or variant.
        UsageError: a name for several variants, or contexts that are to be both embedded and
            shared.
        AuthoringError: there is nothing plain to compile, a name exists already, or the disk is
            full.
        CompileError, NoSuitableVariantError: the EP is not on this machine, or could not compile;
            nothing was changed.
        DigestMismatchError: the package is damaged.
    """
    target = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    check_wishes(wishes)
    check_is_not_installed(target)
    package = open_package(target)
    limits = LoadControl(
        memory_limit_nbytes=wishes.memory_limit_nbytes,
        timeout_s=wishes.timeout_s,
        what="compiling",
    )
    with load_limits(limits):
        groups = (
            groups_to_renew(package, wishes)
            if wishes.renews
            else groups_to_compile(package, wishes, notify)
        )
    check_intact(target, notify=notify, progress=progress)
    if not groups:
        return []
    with compile_folder() as folder:
        made = [
            _compile_group(
                group, folder / str(number), recorded_or_computed_digests(package), notify
            )
            for number, group in enumerate(groups)
        ]
        with open_locked_package(target, notify=notify, operations=operations) as package:
            change, variants = joining_change(package, made)
            try:
                commit_change(target, change, operations=operations, progress=progress)
                on_commit()
            except KeyboardInterrupt:
                if not is_committed(target, change):
                    raise
                on_commit()
    return variants


def _compile_group(
    group: CompileGroup, folder: Path, digests_of: DigestsOf, notify: Notify
) -> CompiledGroup:
    folder.mkdir()
    wishes, targets = group.wishes, group.targets
    is_grouped = len(targets) > 1
    request = CompileRequest(
        jobs=tuple(_job(target, folder, is_grouped=is_grouped) for target in targets),
        ep=wishes.ep,
        device=wishes.device,
        backend=wishes.backend,
        provider_options=dict(wishes.provider_options),
        is_embedded=wishes.is_embedded,
        is_shared=wishes.shares_weights and not wishes.is_embedded,
        for_onnxruntime=wishes.is_for_onnxruntime,
        for_device=wishes.for_device,
        memory_limit_nbytes=wishes.memory_limit_nbytes,
    )
    models = compile_models(request, timeout_s=wishes.timeout_s, notify=notify)
    session_options = {"ep.share_ep_contexts": "1"} if is_grouped and request.is_shared else {}
    compiled = []
    for target, model in zip(targets, models, strict=True):
        new_variant = NewVariant(
            model=model.output,
            name=target.name,
            ep=wishes.ep,
            device=model.device or wishes.device,
            session_options={**session_options, **bring_sources(model.output, target.source)},
            provider_options=_options_of_variant(wishes, target, model.device),
        )
        (prepared,) = prepare_variants([new_variant], notify)
        record = derivation_record(
            target, wishes, digests_of, model.output, absent_device=model.absent_device
        )
        compiled.append((target, model, _with_facts(prepared, model, target, wishes, record)))
    return tuple(compiled)


def _options_of_variant(
    wishes: CompileWishes, target: CompileTarget, device: str
) -> dict[str, str]:
    """Return the caller's options, and float32 for onnxruntime's OpenVINO provider.

    A context cannot state that precision itself.
    """
    options = {**wishes.provider_options, **target.provider_options}
    if not wishes.is_for_onnxruntime or device != DeviceType.CPU:
        return options
    return {**precision_options(resolve_ep_name(wishes.ep), options), **options}


def _job(target: CompileTarget, folder: Path, *, is_grouped: bool) -> CompileJob:
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


def _with_facts(
    prepared: PreparedVariant,
    model: CompiledModel,
    target: CompileTarget,
    wishes: CompileWishes,
    record: Derivation,
) -> PreparedVariant:
    """Add the compiled share, and the source's facts, which hold for the result, too.

    Code that rounds factors is marked as such if the source computes more precisely.
    """
    assert prepared.files.facts is not None
    assert target.source.model_path is not None
    before = read_model_facts(target.source.model_path).signature
    if mismatches := differences(prepared.files.facts.signature, before):
        raise AuthoringError(
            f"what the compiler made of variant {quoted(target.source.name)} cannot stand for it:"
            f" {'; '.join(mismatches)}"
        )
    own_facts = {key: value for key, value in prepared.entry.metadata.items() if key in _OWN_FACTS}
    source_facts = dict(target.source.metadata) or dict(prepared.entry.metadata)
    if wishes.rounds_to_bfloat and (precision_of(source_facts) or Precision.FP32) > Precision.FP16:
        own_facts[QUANTIZATION_FACT] = BFLOAT_PRECISION
    own_facts[DERIVED_FACT] = record.as_fact()
    source_facts.pop(SHARE_FACT, None)
    if model.share is not None:
        own_facts[SHARE_FACT] = asdict(model.share)
    return replace(prepared, entry=replace(prepared.entry, metadata={**source_facts, **own_facts}))
