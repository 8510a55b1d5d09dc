"""Reads universal packages: one directory with the keys of both generations.

onnxruntime 1.26 and 1.27 select from ``model_variants``, 1.28 on from ``variants``. Both lists are
read, and what they say of the same variant must agree, so that a package means one thing to every
reader. Only the device may differ, and only on the CPU, where the component generation's must be
left out: onnxruntime 1.28 to 1.31 never select a variant of ``CPUExecutionProvider`` that states
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ortpkg.documents.findings import FindingCollector, listed
from ortpkg.ep_names import CPU_EP
from ortpkg.errors import quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.variants import CheckedVariant, LazyVariants, checked_variants
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.package.rules import VARIANT_LISTS_DIFFER

_CPU_DEVICE = "cpu"


def merge_generations(
    metadata: tuple[ComponentInfo, ...],
    component: tuple[ComponentInfo, ...],
    found: FindingCollector,
) -> tuple[ComponentInfo, ...]:
    """The component models of a universal package from what each generation's keys say of them.

    Where the two differ, ``found`` gets an error for each difference. Facts that only one has are
    taken from it.
    """
    names, others = [each.name for each in metadata], [each.name for each in component]
    if names != others:
        message = f"component_models has {_names(names)}, components has {_names(others)}"
        found.add(VARIANT_LISTS_DIFFER, MANIFEST, message, pointer="/components")
        return metadata
    return tuple(_merge_component(*pair, found) for pair in zip(metadata, component, strict=True))


def _merge_component(
    metadata: ComponentInfo, component: ComponentInfo, found: FindingCollector
) -> ComponentInfo:
    older, newer = checked_variants(metadata), checked_variants(component)
    names, others = [each.name for each in older], [each.name for each in newer]
    if names != others:
        message = (
            f"model_variants has {_names(names)}, variants has {_names(others)}, which differs"
        )
        found.add(
            VARIANT_LISTS_DIFFER,
            component.source.document,
            message,
            pointer=component.source.pointer,
        )
        return metadata
    pairs = list(map(_MergedVariant, older, newer))
    for pair in pairs:
        _check_agreement(pair.older, pair.newer, found)
    return replace(metadata, variants=LazyVariants(pairs))


class _MergedVariant(NamedTuple):
    """One variant as each generation's keys have it."""

    older: CheckedVariant
    newer: CheckedVariant

    @property
    def name(self) -> str:
        return self.older.name

    @property
    def constraints(self) -> Constraints:
        return self.older.constraints

    @property
    def model_path(self) -> str | None:
        return self.older.model_path

    @property
    def session_options(self) -> Mapping[str, str]:
        return self.older.session_options or self.newer.session_options

    @property
    def provider_options(self) -> Mapping[str, str]:
        return self.older.provider_options or self.newer.provider_options

    def make(self) -> VariantInfo:
        """One variant of both: what the metadata keys say, and what only the others do."""
        older, newer = self.older.make(), self.newer.make()
        return replace(
            older,
            session_options=older.session_options or newer.session_options,
            provider_options=older.provider_options or newer.provider_options,
            executor_info=newer.executor_info,
            component_constraints=newer.component_constraints,
            metadata=older.metadata or newer.metadata,
            additional_metadata=older.additional_metadata or newer.additional_metadata,
        )


def _check_agreement(older: CheckedVariant, newer: CheckedVariant, found: FindingCollector) -> None:
    for what, mine, other in _differences(older, newer):
        source = newer.make().source
        message = (
            f"{what} of variant {quoted(older.name)} is {_shown(other)}, in model_variants it is"
            f" {_shown(mine)}"
        )
        found.add(VARIANT_LISTS_DIFFER, source.document, message, pointer=source.pointer)


def _differences(older: CheckedVariant, newer: CheckedVariant) -> Iterator[tuple[str, Any, Any]]:
    """What the two generations' keys disagree in: (what, metadata's value, component's value)."""
    mine, other = older.constraints, newer.constraints
    yield from (
        each
        for each in (
            ("the model file", older.model_path, newer.model_path),
            ("ep", mine.ep, other.ep),
            ("the compatibility string", mine.ep_compatibility_info, other.ep_compatibility_info),
        )
        if each[1] != each[2]
    )
    is_left_out_for_cpu = mine.ep == CPU_EP and mine.device == _CPU_DEVICE and other.device is None
    if mine.device != other.device and not is_left_out_for_cpu:
        yield "device", mine.device, other.device
    for what, options, others in (
        ("session_options", older.session_options, newer.session_options),
        ("provider_options", older.provider_options, newer.provider_options),
    ):
        if options and others and options != others:
            yield what, dict(options), dict(others)


def _names(names: list[str]) -> str:
    return listed(names) or "none"


def _shown(value: Any) -> str:
    return "not stated" if value is None else quoted(value)
