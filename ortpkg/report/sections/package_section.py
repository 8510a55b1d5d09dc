"""What the package holds: its component models in order, their variants, what flows through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.authoring.variant_sizes import VariantBytes, VariantKey, variant_sizes
from ortpkg.package.package_info import (
    ComponentInfo,
    PackageInfo,
    ValueInfo,
    VariantInfo,
    version_of,
)
from ortpkg.quantities import nbytes_text
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """One variant, in words.

    Attributes:
        name: the variant's.
        version: its own or the package's; "" where neither is stated.
        ep, device, architecture: its constraints; "any" where there is none.
        precision: its data types and quantization, as its metadata state them.
        own_size, shared_size: of its files; the second is "" where it shares none.
        is_chosen: whether this machine would run it.
        is_absent: whether its files are not here.
    """

    name: str
    version: str
    ep: str
    device: str
    architecture: str
    precision: str
    own_size: str
    shared_size: str
    is_chosen: bool
    is_absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPart:
    """One component model: its variants, and the sentence on those that are not shown."""

    name: str
    variants: tuple[VariantRow, ...]
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSection(Section):
    """What the package says of itself.

    Attributes:
        facts: (what, value) in the order in which they are read.
        values: (which, name, type) of its overall inputs and outputs.
        components: in execution order.
    """

    facts: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str, str], ...]
    components: tuple[ComponentPart, ...]


def package_section(subject: ReportSubject) -> PackageSection:
    """The package's own words, and the sizes of its files."""
    info = subject.info
    sizes = variant_sizes(info)
    variants = sum(len(component.variants) for component in info.components)
    return PackageSection(
        headline=", ".join(
            (_count(len(info.components), "component model"), _count(variants, "variant"))
        ),
        facts=tuple((what, value) for what, value in _facts(info) if value),
        values=tuple(
            (which, value.name, _type_text(value))
            for which, values in (("input", info.inputs), ("output", info.outputs))
            for value in values[:MOST_ROWS]
        ),
        components=tuple(
            _component(component, subject, sizes) for component in info.components[:MOST_ROWS]
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _facts(info: PackageInfo) -> tuple[tuple[str, str], ...]:
    metadata = info.additional_metadata
    license_text = metadata.get("license") if isinstance(metadata, Mapping) else None
    return (
        ("Version", info.version or ""),
        ("Description", info.description or ""),
        ("License", license_text if isinstance(license_text, str) else ""),
        ("Format", "an ONNX file" if info.is_bare_model else f"{info.format.value} format"),
        ("Samples", "yes" if info.has_samples else ""),
        ("Pipeline", "yes" if info.is_pipeline else ""),
        ("Folder", str(info.root)),
    )


def _type_text(value: ValueInfo) -> str:
    if value.shape is None:
        return value.type
    return f"{value.type} [{', '.join('?' if size is None else str(size) for size in value.shape)}]"


def _component(
    component: ComponentInfo, subject: ReportSubject, sizes: Mapping[VariantKey, VariantBytes]
) -> ComponentPart:
    selection = subject.here.selections.get(component.name)
    best = None if selection is None else selection.best
    chosen = "" if best is None else best.variant.name
    shown = component.variants[:MOST_ROWS]
    return ComponentPart(
        name=component.name,
        variants=tuple(
            _variant(each, subject.info, sizes[component.name, each.name], each.name == chosen)
            for each in shown
        ),
        left_out=left_out(
            len(component.variants) - len(shown), "variants", "ortpkg inspect --json"
        ),
    )


def _variant(
    variant: VariantInfo, info: PackageInfo, size: VariantBytes, is_chosen: bool
) -> VariantRow:
    constraints = variant.constraints
    return VariantRow(
        name=variant.name,
        version=version_of(variant, info) or "",
        ep=constraints.ep or "any",
        device=constraints.device or "any",
        architecture=constraints.architecture or "any",
        precision=_precision(variant),
        own_size="absent" if variant.is_absent else nbytes_text(size.own_nbytes),
        shared_size=nbytes_text(size.shared_nbytes) if size.shared_nbytes else "",
        is_chosen=is_chosen,
        is_absent=variant.is_absent,
    )


def _precision(variant: VariantInfo) -> str:
    types = variant.metadata.get("data_types") or ()
    stated = [str(each) for each in types] if isinstance(types, tuple) else [str(types)]
    quantization = variant.metadata.get("quantization")
    return ", ".join([*stated, *([str(quantization)] if quantization else [])])
