"""Read universal packages: one directory with the keys of both generations.

onnxruntime 1.26 and 1.27 select from ``model_variants``, 1.28 and later from ``variants``. Both
lists are read, and must agree about each variant, so that a package means the same to every reader.
Only the device may differ, and only on the CPU, where the component generation's must be left out:
onnxruntime 1.28 to 1.31 never select a variant of ``CPUExecutionProvider`` that states it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ortpkg.foundations.documents.finding_collector import FindingCollector, listed
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.variants import CheckedVariant, LazyVariants, checked_variants
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.package.rules import VARIANT_LISTS_DIFFER

_CPU_DEVICE = "cpu"


def merge_generations(
    metadata: tuple[ComponentInfo, ...],
    component: tuple[ComponentInfo, ...],
    collector: FindingCollector,
) -> tuple[ComponentInfo, ...]:
    """Merge the component models that each generation's keys describe.

    Facts that only one has are taken from it. Each difference is an error in ``collector``.
    """
    names = [model.name for model in metadata]
    others = [model.name for model in component]
    if names != others:
        message = f"component_models has {_names(names)}, components has {_names(others)}"
        collector.add(VARIANT_LISTS_DIFFER, MANIFEST, message, pointer="/components")
        return metadata
    return tuple(
        _merge_component(*pair, collector) for pair in zip(metadata, component, strict=True)
    )


def _merge_component(
    metadata: ComponentInfo, component: ComponentInfo, collector: FindingCollector
) -> ComponentInfo:
    older, newer = checked_variants(metadata), checked_variants(component)
    names, others = [variant.name for variant in older], [variant.name for variant in newer]
    if names != others:
        message = (
            f"model_variants has {_names(names)}, variants has {_names(others)}, which differs"
        )
        collector.add(
            VARIANT_LISTS_DIFFER,
            component.source.document,
            message,
            pointer=component.source.pointer,
        )
        return metadata
    pairs = list(map(_MergedVariant, older, newer))
    for pair in pairs:
        _check_agreement(pair.older, pair.newer, collector)
    return replace(metadata, variants=LazyVariants(pairs))


class _MergedVariant(NamedTuple):
    """One variant in both generations' keys."""

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
        """Merge the variant: metadata's keys, and those that only the component's have."""
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


def _check_agreement(
    older: CheckedVariant, newer: CheckedVariant, collector: FindingCollector
) -> None:
    for field, older_value, newer_value in _differences(older, newer):
        source = newer.make().source
        message = (
            f"{field} of variant {quoted(older.name)} is {_shown(newer_value)}, in model_variants"
            f" it is {_shown(older_value)}"
        )
        collector.add(VARIANT_LISTS_DIFFER, source.document, message, pointer=source.pointer)


def _differences(older: CheckedVariant, newer: CheckedVariant) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, metadata's value, component's value) where the two generations disagree."""
    older_constraints, newer_constraints = older.constraints, newer.constraints
    yield from (
        fact
        for fact in (
            ("the model file", older.model_path, newer.model_path),
            ("ep", older_constraints.ep, newer_constraints.ep),
            (
                "the compatibility string",
                older_constraints.ep_compatibility_info,
                newer_constraints.ep_compatibility_info,
            ),
        )
        if fact[1] != fact[2]
    )
    is_left_out_for_cpu = (
        older_constraints.ep == CPU_EP
        and older_constraints.device == _CPU_DEVICE
        and newer_constraints.device is None
    )
    if older_constraints.device != newer_constraints.device and not is_left_out_for_cpu:
        yield "device", older_constraints.device, newer_constraints.device
    for field, options, others in (
        ("session_options", older.session_options, newer.session_options),
        ("provider_options", older.provider_options, newer.provider_options),
    ):
        if options and others and options != others:
            yield field, dict(options), dict(others)


def _names(names: list[str]) -> str:
    return listed(names) or "none"


def _shown(value: Any) -> str:
    return "not stated" if value is None else quoted(value)
