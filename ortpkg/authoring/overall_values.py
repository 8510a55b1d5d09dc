"""Compute the inputs and outputs that a manifest states of the whole package.

Without pipeline.json, components are wired by name: the package's inputs are those that no earlier
component makes, its outputs those that no later one takes. With a pipeline.json, the pipeline
states them, and the manifest is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.foundations.errors import ModelError
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.package.package_info import ComponentInfo, PackageInfo

Values = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallValues:
    """``inputs`` and ``outputs`` of the manifest before and after a change; empty if unknown."""

    before: Values
    after: Values


def overall_values_after(
    package: PackageInfo,
    *,
    joining: Mapping[str, ModelSignature | None] | None = None,
    leaving: str | None = None,
) -> OverallValues | None:
    """Return the overall values if components join (name → signature) or one leaves.

    Return None if pipeline.json states them.
    """
    if package.has_pipeline:
        return None
    signatures = {
        component.name: signature_of_component(component) for component in package.components
    }
    later = {name: signature for name, signature in signatures.items() if name != leaving} | dict(
        joining or {}
    )
    return OverallValues(
        before=overall_values(list(signatures.values())),
        after=overall_values(list(later.values())),
    )


def signature_of_component(component: ComponentInfo) -> ModelSignature | None:
    """Return the signature of a component: that of its first variant with a readable model.

    Return None if there is none.
    """
    for variant in component.variants:
        if variant.model_path is not None:
            try:
                return read_model_facts(variant.model_path).signature
            except ModelError:
                continue
    return None


def unwired_values(
    signatures: Sequence[ModelSignature],
) -> tuple[tuple[ValueSignature, ...], tuple[ValueSignature, ...]]:
    """Return the inputs of components in this order from outside, and their remaining outputs."""
    inputs: dict[str, ValueSignature] = {}
    made: dict[str, ValueSignature] = {}
    used: set[str] = set()
    for signature in signatures:
        for value in signature.inputs:
            if value.name in made:
                used.add(value.name)
            else:
                inputs.setdefault(value.name, value)
        for value in signature.outputs:
            made[value.name] = value
            used.discard(value.name)
    return tuple(inputs.values()), tuple(value for name, value in made.items() if name not in used)


def overall_values(signatures: Sequence[ModelSignature | None]) -> Values:
    """Return ``inputs`` and ``outputs`` for the manifest.

    Return {} if a component or one of its names or types is unknown.
    """
    readable = [signature for signature in signatures if signature is not None]
    if not readable or len(readable) < len(signatures):
        return {}
    inputs, outputs = unwired_values(readable)
    if not all(value.name and value.type for value in (*inputs, *outputs)):
        return {}
    return {"inputs": _value_bodies(inputs), "outputs": _value_bodies(outputs)}


def is_same(values: Any, expected: Any) -> bool:
    """Return True if two lists of values have the same names and types in the same order.

    Shapes may be more or less exact.
    """
    return _names_and_types(values) == _names_and_types(expected)


def _names_and_types(values: Any) -> list[tuple[Any, Any]]:
    return [
        (value.get("name"), value.get("type")) for value in values or () if isinstance(value, dict)
    ]


def _value_bodies(values: Sequence[ValueSignature]) -> list[dict[str, Any]]:
    return [
        {
            "name": value.name,
            "type": value.type,
            "shape": None if value.shape is None else list(map(_size, value.shape)),
        }
        for value in values
    ]


def _size(dimension: int | str | None) -> int | str | None:
    """Return a dimension; None for a symbol without a name, or a negative size."""
    return None if dimension == "" or (isinstance(dimension, int) and dimension < 0) else dimension
