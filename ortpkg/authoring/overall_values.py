"""The inputs and outputs that a manifest states of the whole package, and how they change.

Without pipeline.json, components are wired by name: the package takes what no earlier component
makes, and gives what no later one takes. With one, the pipeline says what the package takes and
gives, and the manifest is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.errors import ModelError
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.package.package_info import ComponentInfo, PackageInfo

Values = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallValues:
    """``inputs`` and ``outputs`` of the manifest before and after a change.

    Empty where they cannot be known.
    """

    before: Values
    after: Values


def overall_values_after(
    package: PackageInfo,
    *,
    joining: Mapping[str, ModelSignature | None] | None = None,
    leaving: str | None = None,
) -> OverallValues | None:
    """The overall values when components join (name → what they take and give) or one leaves.

    None where pipeline.json says what they are.
    """
    if package.has_pipeline:
        return None
    known = {component.name: signature_of_component(component) for component in package.components}
    later = {name: signature for name, signature in known.items() if name != leaving} | dict(
        joining or {}
    )
    return OverallValues(
        before=overall_values(list(known.values())),
        after=overall_values(list(later.values())),
    )


def signature_of_component(component: ComponentInfo) -> ModelSignature | None:
    """What a component takes and gives, by its first variant whose model can be read.

    None where none can.
    """
    for variant in component.variants:
        if variant.model_path is not None:
            try:
                return read_model_facts(variant.model_path).signature
            except ModelError:
                continue
    return None


def wired_by_name(
    signatures: Sequence[ModelSignature],
) -> tuple[tuple[ValueSignature, ...], tuple[ValueSignature, ...]]:
    """What components in this order take from outside, and give that none of them takes."""
    inputs: dict[str, ValueSignature] = {}
    made: dict[str, ValueSignature] = {}
    taken: set[str] = set()
    for signature in signatures:
        for value in signature.inputs:
            if value.name in made:
                taken.add(value.name)
            else:
                inputs.setdefault(value.name, value)
        for value in signature.outputs:
            made[value.name] = value
            taken.discard(value.name)
    return tuple(inputs.values()), tuple(value for name, value in made.items() if name not in taken)


def overall_values(signatures: Sequence[ModelSignature | None]) -> Values:
    """``inputs`` and ``outputs`` for the manifest.

    Empty where a component or one of its names or types is unknown.
    """
    known = [signature for signature in signatures if signature is not None]
    if not known or len(known) < len(signatures):
        return {}
    inputs, outputs = wired_by_name(known)
    if not all(value.name and value.type for value in (*inputs, *outputs)):
        return {}
    return {"inputs": _stated(inputs), "outputs": _stated(outputs)}


def is_same(stated: Any, expected: Any) -> bool:
    """Whether two lists of values have the same names and types in the same order.

    Shapes may be more or less exact.
    """
    return _names_and_types(stated) == _names_and_types(expected)


def _names_and_types(values: Any) -> list[tuple[Any, Any]]:
    return [
        (value.get("name"), value.get("type")) for value in values or () if isinstance(value, dict)
    ]


def _stated(values: Sequence[ValueSignature]) -> list[dict[str, Any]]:
    return [
        {
            "name": value.name,
            "type": value.type,
            "shape": None if value.shape is None else list(map(_size, value.shape)),
        }
        for value in values
    ]


def _size(dimension: int | str | None) -> int | str | None:
    """A symbol without a name, or a negative size, says no more than "unknown"."""
    return None if dimension == "" or (isinstance(dimension, int) and dimension < 0) else dimension
