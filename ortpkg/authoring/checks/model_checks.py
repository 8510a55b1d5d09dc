"""Check models and the files beside them, before anything loads them (ORT101 to ORT126)."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from ortpkg.authoring.agreement import differences, fixed_dimension_differences
from ortpkg.authoring.checks.checked_package import CheckedPackage, OpenedModel, finding_of_variant
from ortpkg.authoring.checks.data_references import DataReference
from ortpkg.authoring.overall_values import unwired_values
from ortpkg.authoring.rules import model_rules
from ortpkg.authoring.variant_files import is_linked_data
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.finding_collector import finding, listed
from ortpkg.foundations.ep_names import (
    context_sources_of,
    ep_of_context_source,
    is_known_ep,
    removed_ep_text,
    stated_ep,
)
from ortpkg.foundations.errors import Finding, ModelFileError, quoted
from ortpkg.graph.attribute_definitions import opset_that_adds, undefined_attributes
from ortpkg.graph.external_data import check_location
from ortpkg.graph.model_signature import ValueSignature
from ortpkg.graph.needed_operators import OnnxOperator, operator_text
from ortpkg.graph.onnx_opsets import OperatorState, first_opset, operator_state
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.package_info import PackageInfo, ValueInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_inside, is_link
from ortpkg.runtime.providers.operator_support import is_public_operator

_MOST_NAMED = 5
#: Domain of the operators on blocks of channels that onnxruntime's ORT_ENABLE_ALL makes.
_CPU_LAYOUT_DOMAIN = "com.microsoft.nchwc"


def check_models(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each model can be opened."""
    for variant, model in _models(package):
        if model.error and not _is_about_data(model):
            yield finding_of_variant(model_rules.MODEL_WRONG, variant, model.error)


def check_external_data(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each tensor's data is in a plain file beside the model, long enough for it."""
    for variant, model in _models(package):
        by_location: defaultdict[str, list[DataReference]] = defaultdict(list)
        for reference in model.data:
            by_location[_normal(reference.location)].append(reference)
        for location, references in by_location.items():
            if not location and references[0].problem:  # its entries cannot be read at all
                yield from _check_ranges(variant, references)
                continue
            subject = (
                f"data file {quoted(location)} of {_tensors(references)} in variant"
                f" {quoted(variant.name)}"
            )
            if reason := _why_not_inside(location):
                yield finding_of_variant(model_rules.DATA_LEAVES, variant, f"{subject} {reason}")
                continue
            yield from _check_ranges(variant, references)
            file = _look_at(model.data_folder, location, package.info)
            if file.rule is not None:
                yield finding_of_variant(file.rule, variant, f"{subject} {file.reason}")
            if file.nbytes is not None:
                yield from _check_size(variant, references, file.nbytes)


def check_contexts(package: CheckedPackage) -> Iterator[Finding]:
    """Check that compiled contexts lie beside their models, with a main node, for the right EP."""
    for variant, model in _models(package):
        for location in dict.fromkeys(
            context.location for context in model.contexts if context.location
        ):
            subject = f"compiled context {quoted(location)} of variant {quoted(variant.name)}"
            if reason := _why_not_inside(location):
                yield finding_of_variant(model_rules.CONTEXT_LEAVES, variant, f"{subject} {reason}")
                continue
            file = _look_at(model.path.parent, location, package.info)
            if file.rule is model_rules.DATA_LEAVES:
                yield finding_of_variant(
                    model_rules.CONTEXT_LEAVES, variant, f"{subject} {file.reason}"
                )
            elif file.rule is not None and file.nbytes is None:
                yield finding_of_variant(
                    model_rules.CONTEXT_MISSING, variant, f"{subject} {file.reason}"
                )
            elif file.nbytes == 0:
                yield finding_of_variant(
                    model_rules.CONTEXT_MISSING, variant, f"{subject} is empty"
                )
        yield from _check_sources(variant, model)


def check_operators(package: CheckedPackage) -> Iterator[Finding]:
    """Check that some known library has each operator.

    A plug-in EP, which the variant names, may have its own.
    """
    for variant, model in _models(package):
        ep = stated_ep(variant.constraints.ep)
        if model.operators is None or (ep is not None and not is_known_ep(ep)):
            continue
        unknown = [
            operator_text(operator)
            for operator in model.operators.foreign
            if not is_public_operator(operator)
        ]
        if unknown:
            named = f"{'operators' if len(unknown) > 1 else 'operator'} {listed(unknown)}"
            message = (
                f"the model of variant {quoted(variant.name)} needs the {named}, which no known"
                " library has"
            )
            yield finding_of_variant(model_rules.OPERATOR_UNKNOWN, variant, message)


def check_cpu_layouts(package: CheckedPackage) -> Iterator[Finding]:
    """Check that no model has operators on weights that are laid out for one CPU."""
    for variant, model in _models(package):
        foreign = () if model.operators is None else model.operators.foreign
        bound = [
            operator_text(operator) for operator in foreign if operator[0] == _CPU_LAYOUT_DOMAIN
        ]
        if bound:
            message = (
                f"the model of variant {quoted(variant.name)} was optimized for one CPU: it has"
                f" {listed(bound)}"
            )
            yield finding_of_variant(model_rules.BOUND_TO_ONE_CPU, variant, message)


def check_onnx_operators(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each ONNX operator is defined, and not deprecated, in its model's opset.

    Opsets newer than the installed onnx are not judged; a plug-in EP, which the variant names, may
    have operators of its own.
    """
    for variant, model in _models(package):
        ep = stated_ep(variant.constraints.ep)
        if model.operators is None or (ep is not None and not is_known_ep(ep)):
            continue
        used = model.operators.onnx
        undefined = [
            f"{_with_opset(operator)}{_note_of_later_opset(operator)}"
            for operator in used
            if operator_state(*operator) is OperatorState.UNDEFINED
        ]
        if undefined:
            message = (
                f"the model of variant {quoted(variant.name)} has no definition of"
                f" {_shortened(undefined)}"
            )
            yield finding_of_variant(model_rules.OPERATOR_UNDEFINED, variant, message)
        deprecated = [
            _with_opset(operator)
            for operator in used
            if operator_state(*operator) is OperatorState.DEPRECATED
        ]
        if deprecated:
            message = (
                f"the model of variant {quoted(variant.name)} has {_shortened(deprecated)},"
                " deprecated there"
            )
            yield finding_of_variant(model_rules.OPERATOR_DEPRECATED, variant, message)


def check_attributes(package: CheckedPackage) -> Iterator[Finding]:
    """Find attributes of ONNX operators that their model's opset does not define.

    A plug-in EP, which the variant names, may have operators of its own.
    """
    for variant, model in _models(package):
        ep = stated_ep(variant.constraints.ep)
        if model.operators is None or (ep is not None and not is_known_ep(ep)):
            continue
        pairs = [
            (operator, name)
            for operator, names in model.operators.attributes.items()
            for name in undefined_attributes(operator, names)
        ]
        undefined = [
            f"{quoted(name)} of {_with_opset(operator)}{_note_of_later_attribute(operator, name)}"
            for operator, name in pairs[:_MOST_NAMED]
        ]
        if undefined:
            message = (
                f"the model of variant {quoted(variant.name)} has no definition of the"
                f" {'attributes' if len(pairs) > 1 else 'attribute'}"
                f" {_shortened(undefined, len(pairs))}"
            )
            yield finding_of_variant(model_rules.ATTRIBUTE_UNDEFINED, variant, message)


def _note_of_later_attribute(operator: OnnxOperator, name: str) -> str:
    opset = opset_that_adds(operator, name)
    return "" if opset is None else f" (ONNX has it from opset {opset} on)"


def _with_opset(operator: OnnxOperator) -> str:
    name = quoted(operator_text((operator.domain, operator.name)))
    return (
        f"{name} of a domain that is not imported"
        if operator.opset is None
        else f"{name} of opset {operator.opset}"
    )


def _note_of_later_opset(operator: OnnxOperator) -> str:
    first = first_opset(operator.domain, operator.name)
    return (
        f" (ONNX has it from opset {first} on)"
        if first is not None and (operator.opset or first) < first
        else ""
    )


def _shortened(texts: Sequence[str], count: int | None = None) -> str:
    """Return the first few of ``texts``, and how many more there are, of ``count`` in all."""
    unnamed = (len(texts) if count is None else count) - _MOST_NAMED
    return f"{', '.join(texts[:_MOST_NAMED])}{f' and {unnamed} more' if unnamed > 0 else ''}"


def check_agreement(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each variant has the inputs and outputs of its component's first variant."""
    for component in package.components:
        opened = list(package.signatures_of(component))
        for variant, signature in opened[1:]:
            first, theirs = opened[0]
            mismatches = differences(signature, theirs)
            rule = model_rules.VALUES_DIFFER if mismatches else model_rules.FIXED_DIMENSIONS_DIFFER
            for difference in mismatches or fixed_dimension_differences(signature, theirs):
                message = (
                    f"variant {quoted(variant.name)} differs from {quoted(first.name)}:"
                    f" {difference}"
                )
                yield finding_of_variant(rule, variant, message)


def check_overall_values(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the manifest's inputs and outputs are those of its components wired by name."""
    signatures = [package.signature_of(component.name) for component in package.info.components]
    readable = [signature for signature in signatures if signature is not None]
    if package.info.has_pipeline or not readable or len(readable) < len(signatures):
        return
    inputs, outputs = unwired_values(readable)
    owner = "the model" if len(readable) == 1 else "the components together"
    for key, declared, actual in (
        ("inputs", package.info.inputs, inputs),
        ("outputs", package.info.outputs, outputs),
    ):
        if declared and list(map(_name_and_type, declared)) != list(map(_name_and_type, actual)):
            message = f"{key} are {_values(declared)}, those of {owner} are {_values(actual)}"
            yield finding(model_rules.OVERALL_VALUES_OUTDATED, MANIFEST, message, pointer=f"/{key}")


# --- external data --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """File at a location: its size, or the rule that it breaks with the reason."""

    rule: Rule | None = None
    reason: str = ""
    nbytes: int | None = None


def _models(package: CheckedPackage) -> Iterator[tuple[VariantInfo, OpenedModel]]:
    for variant in package.variants:
        for model in package.models_of(variant):
            yield variant, model


def _is_about_data(model: OpenedModel) -> bool:
    """Return True if a signature is unreadable because of data that other rules report better."""
    return any(
        _why_not_inside(reference.location) or reference.problem for reference in model.data
    ) or any(
        reference.location and _why_not_inside(reference.location) for reference in model.contexts
    )


def _normal(location: str) -> str:
    """Return one spelling for ``w.bin`` and ``./w.bin``."""
    return PurePosixPath(location).as_posix() if location else ""


def _why_not_inside(location: str) -> str | None:
    try:
        check_location(location, "it")
    except ModelFileError as error:
        return str(error).partition(", which ")[2] or "is not a file name"
    return None


def _look_at(folder: Path, location: str, package: PackageInfo) -> _File:
    """Follow ``location``, a plain path by its text, from ``folder``."""
    if package.is_bare_model and is_linked_data(folder, location, package.root):
        return _File(nbytes=(folder / location).stat().st_size)
    path = folder
    for part in PurePosixPath(location).parts:
        path /= part
        try:
            if is_link(path.lstat()):
                return _linked(path, package.root)
        except (OSError, ValueError):
            return _File(rule=model_rules.DATA_MISSING, reason="does not exist")
    try:
        status = path.stat()
    except OSError as error:
        return _File(rule=model_rules.DATA_MISSING, reason=f"cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return _File(rule=model_rules.DATA_NOT_PLAIN, reason="is not a regular file")
    if status.st_nlink > 1:
        reason = f"has {status.st_nlink} names (hard links)"
        return _File(rule=model_rules.DATA_HARD_LINKED, reason=reason, nbytes=status.st_size)
    return _File(nbytes=status.st_size)


def _linked(path: Path, root: Path) -> _File:
    if is_inside(os.path.realpath(path), str(root)):
        return _File(rule=model_rules.DATA_NOT_PLAIN, reason="is reached through a symbolic link")
    return _File(
        rule=model_rules.DATA_LEAVES, reason="leads out of the package through a symbolic link"
    )


def _check_ranges(variant: VariantInfo, references: list[DataReference]) -> Iterator[Finding]:
    """Check the ranges in one file: each is well-formed, and no two overlap in part."""
    ranges: list[tuple[int, int, str]] = []
    for reference in references:
        if reference.problem:
            message = (
                f"tensor {quoted(reference.tensor)} of variant {quoted(variant.name)}"
                f" {reference.problem}"
            )
            yield finding_of_variant(model_rules.DATA_RANGE, variant, message)
        elif reference.nbytes:
            ranges.append((reference.offset, reference.offset + reference.nbytes, reference.tensor))
    ranges.sort()
    for (start, end, tensor), (next_start, next_end, other) in pairwise(ranges):
        if next_start < end and (start, end) != (next_start, next_end):
            message = (
                f"tensors {quoted(tensor)} and {quoted(other)} of variant {quoted(variant.name)}"
                f" overlap in {quoted(references[0].location)}: bytes {start} to {end} and"
                f" {next_start} to {next_end}"
            )
            yield finding_of_variant(model_rules.DATA_OVERLAPS, variant, message)


def _check_size(
    variant: VariantInfo, references: list[DataReference], nbytes: int
) -> Iterator[Finding]:
    needed = max(
        (
            reference.offset + reference.nbytes
            for reference in references
            if reference.nbytes is not None and not reference.problem
        ),
        default=0,
    )
    if needed > nbytes:
        message = (
            f"data file {quoted(references[0].location)} of variant {quoted(variant.name)} is too"
            f" short: {nbytes} bytes of {needed} needed"
        )
        yield finding_of_variant(model_rules.DATA_TOO_SHORT, variant, message)


def _tensors(references: list[DataReference]) -> str:
    more = f" and {len(references) - 1} more" if len(references) > 1 else ""
    return f"tensor {quoted(references[0].tensor)}{more}"


# --- compiled contexts ----------------------------------------------------------------------------


def _check_sources(variant: VariantInfo, model: OpenedModel) -> Iterator[Finding]:
    mains = {context.source for context in model.contexts if context.is_main}
    for source in dict.fromkeys(context.source for context in model.contexts):
        if source not in mains:
            message = (
                f"variant {quoted(variant.name)} has EPContext nodes of {quoted(source)} and no"
                " main one"
            )
            yield finding_of_variant(model_rules.CONTEXT_WITHOUT_MAIN, variant, message)
        if removed := removed_ep_text(source):
            message = f"variant {quoted(variant.name)} holds a compiled context, and {removed}"
            yield finding_of_variant(model_rules.CONTEXT_MAKER_REMOVED, variant, message)
            continue
        ep = stated_ep(variant.constraints.ep)
        maker = ep_of_context_source(source)
        # A plug-in may use any name for its contexts; known providers use their own name.
        if source and maker != ep and (is_known_ep(maker) or is_known_ep(ep or "")):
            offered = f"is for {quoted(ep)}" if ep else "names no execution provider"
            if ep and is_known_ep(ep):
                offered += (
                    ", which takes contexts of source"
                    f" {' or '.join(map(quoted, context_sources_of(ep)))}"
                )
            message = (
                f"variant {quoted(variant.name)} {offered}; {quoted(source)} compiled its model"
            )
            yield finding_of_variant(model_rules.CONTEXT_SOURCE, variant, message)


# --- values ---------------------------------------------------------------------------------------


def _name_and_type(value: ValueInfo | ValueSignature) -> tuple[str, str]:
    return value.name, value.type


def _values(values: Iterable[ValueInfo | ValueSignature]) -> str:
    return listed([f"{value.name}: {value.type}" for value in values]) or "none"
