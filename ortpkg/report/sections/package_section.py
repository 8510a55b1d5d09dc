"""Content of the package: its component models in order, their variants, and its data flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ortpkg.authoring.variant_sizes import (
    VariantBytes,
    VariantKey,
    files_by_variant,
    sizes_of,
)
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.quantities import counted, nbytes_text
from ortpkg.package.package_info import (
    ComponentInfo,
    PackageInfo,
    VariantInfo,
    has_packages_version,
    version_of,
)
from ortpkg.report.report_subject import MOST_VARIANTS, ReportSubject
from ortpkg.report.sections.flow_picture import MOST_CARDS, flow_picture
from ortpkg.report.sections.pipeline_flow import (
    FlowStep,
    PipelineFlow,
    card_count,
    flow_steps,
    pipeline_flow,
    type_text,
)
from ortpkg.report.sections.section import MOST_ROWS, Section, left_out
from ortpkg.report.sections.stored_weights import StoredWeights, stored_weights
from ortpkg.selection.matching.variant_facts import DATA_TYPES_FACT, QUANTIZATION_FACT, precision_of

#: Most variants of all component models together that have a row.
_MOST_VARIANTS_IN_ALL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """One variant, in words.

    Attributes:
        name: Name of the variant.
        version: Its version or the package's; "none" if there is neither.
        ep, device, architecture: Its constraints; "any" without one.
        ep_name: Full name of the EP, or "".
        precision: Its quantization, or its floating-point type.
        data_types: All data types, as its metadata state them.
        own_size, shared_size: Size of its files; the second is "" if it shares none.
        is_chosen: True if this machine would run it.
        is_absent: True if its files are not here.
    """

    name: str
    version: str
    ep: str
    ep_name: str
    device: str
    architecture: str
    precision: str
    data_types: str
    own_size: str
    shared_size: str
    is_chosen: bool
    is_absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPart:
    """One component model with its variants.

    Attributes:
        name: Name of the component.
        variants: Variants in declaration order.
        has_versions: True if a variant's version differs from the package's.
        shares: True if a variant shares files with another one.
        left_out: Sentence on the variants that are not shown, or "".
    """

    name: str
    variants: tuple[VariantRow, ...]
    has_versions: bool
    shares: bool
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePart:
    """Pipeline as a picture and a table.

    Attributes:
        picture: Figure, or "" if nothing is known of it.
        steps: Runs of components, in order.
        obstacle: Reason why values are not shown, or "".
        left_out: Sentence on the steps that the table does not show.
        is_drawn_whole: True if the picture shows every step.
    """

    picture: str
    steps: tuple[FlowStep, ...]
    obstacle: str
    left_out: str
    is_drawn_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSection(Section):
    """The package's own description.

    Attributes:
        description: Description in the package's words.
        facts: Name and value of facts, in reading order.
        folder: Name of its folder; its path may be private.
        values: Kind, name and type of its overall inputs and outputs.
        pipeline: Data flow between its components.
        components: Components in execution order.
        weights: What several variants share, or None.
    """

    description: str
    facts: tuple[tuple[str, str], ...]
    folder: str
    values: tuple[tuple[str, str, str], ...]
    pipeline: PipelinePart
    components: tuple[ComponentPart, ...]
    weights: StoredWeights | None


def package_section(subject: ReportSubject) -> PackageSection:
    """Return the package's own description, and the sizes of its files."""
    info = subject.info
    files = files_by_variant(info)
    sizes = sizes_of(files)
    variants = sum(len(component.variants) for component in info.components)
    return PackageSection(
        headline=", ".join(
            (counted(len(info.components), "component model"), counted(variants, "variant"))
        ),
        description=info.description or "",
        facts=tuple((what, value) for what, value in _facts(info) if value),
        folder=info.root.name,
        values=tuple(
            (which, value.name, type_text(value))
            for which, values in (("input", info.inputs), ("output", info.outputs))
            for value in values[:MOST_ROWS]
        ),
        pipeline=_pipeline(pipeline_flow(subject)),
        components=tuple(
            _component(component, subject, sizes) for component in info.components[:MOST_ROWS]
        ),
        weights=stored_weights(info, files),
    )


def _facts(info: PackageInfo) -> tuple[tuple[str, str], ...]:
    metadata = info.additional_metadata
    license_text = metadata.get("license") if isinstance(metadata, Mapping) else None
    return (
        ("Version", info.version or ""),
        ("License", license_text if isinstance(license_text, str) else ""),
        ("Format", "an ONNX file" if info.is_bare_model else f"{info.format.value} format"),
        ("Samples", "yes" if info.has_samples else ""),
        ("Pipeline", "yes" if info.is_pipeline else ""),
    )


def _pipeline(flow: PipelineFlow) -> PipelinePart:
    steps = tuple(flow_steps(flow.cards))
    return PipelinePart(
        picture=(
            flow_picture(flow.cards, name="pipeline", title="What flows through the package")
            if flow.cards
            else ""
        ),
        steps=steps[:MOST_ROWS],
        obstacle=flow.obstacle,
        left_out=left_out(len(steps) - MOST_ROWS, "steps", "pipeline.json"),
        is_drawn_whole=card_count(flow.cards) <= MOST_CARDS,
    )


def _component(
    component: ComponentInfo, subject: ReportSubject, sizes: Mapping[VariantKey, VariantBytes]
) -> ComponentPart:
    selection = subject.here.selections.get(component.name)
    best = None if selection is None else selection.best
    chosen = "" if best is None else best.variant.name
    most = max(_MOST_VARIANTS_IN_ALL // len(subject.info.components), 5)
    shown = component.variants[: min(most, MOST_VARIANTS)]
    rows = tuple(
        _variant(item, subject.info, sizes[component.name, item.name], item.name == chosen)
        for item in shown
    )
    return ComponentPart(
        name=component.name,
        variants=rows,
        has_versions=not all(map(has_packages_version, shown)),
        shares=any(item.shared_size for item in rows),
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
        version=version_of(variant, info) or "none",
        ep=short_ep_names(constraints.ep or "any"),
        ep_name=constraints.ep or "",
        device=constraints.device or "any",
        architecture=constraints.architecture or "any",
        precision=_precision(variant),
        data_types=_data_types(variant),
        own_size="absent" if variant.is_absent else nbytes_text(size.own_nbytes),
        shared_size=nbytes_text(size.shared_nbytes) if size.shared_nbytes else "",
        is_chosen=is_chosen,
        is_absent=variant.is_absent,
    )


def _precision(variant: VariantInfo) -> str:
    """Return for example "qdq-int8" or "fp32"; the data types if they imply no precision."""
    quantization = variant.metadata.get(QUANTIZATION_FACT)
    if isinstance(quantization, str) and quantization != "none":
        return quantization
    precision = precision_of(variant.metadata)
    return _data_types(variant) if precision is None else precision.label


def _data_types(variant: VariantInfo) -> str:
    value = variant.metadata.get(DATA_TYPES_FACT) or ()
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
