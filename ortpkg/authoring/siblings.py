"""Compares new variants with their siblings, and says what is wrong with them.

Whether one can stand for another, and whether every runtime selects them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.authoring.agreement import differences, fixed_dimension_differences
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.errors import AuthoringError, ModelError, quoted
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.package_info import ComponentInfo, PackageFormat, VariantInfo


def check_agreement(
    prepared: Sequence[PreparedVariant],
    force: bool,
    notify: Notify,
    siblings: Sequence[tuple[str, ModelSignature]] = (),
) -> None:
    """Compares each variant with ``siblings`` and with those before it.

    ``force`` makes a warning of a refusal.
    """
    seen = list(siblings)
    for variant in prepared:
        if variant.files.facts is None:
            continue
        ours = variant.files.facts.signature
        for name, theirs in seen:
            if found := differences(ours, theirs):
                message = (
                    f"variant {quoted(variant.name)} cannot stand for {quoted(name)}:"
                    f" {'; '.join(found)}"
                )
                if not force:
                    raise AuthoringError(f"{message} (force adds it nevertheless)")
                notify(message)
        _warn_of_fixed_dimensions(variant.name, ours, seen, notify)
        seen.append((variant.name, ours))


def _warn_of_fixed_dimensions(
    name: str, ours: ModelSignature, siblings: Sequence[tuple[str, ModelSignature]], notify: Notify
) -> None:
    """Says (as ORT121 does) with which other variant no feed is shared; of several, the first."""
    for other, theirs in siblings:
        found = [] if differences(ours, theirs) else fixed_dimension_differences(ours, theirs)
        for difference in found:
            notify(
                f"variant {quoted(name)} differs from {quoted(other)}: {difference}; no feed suits"
                " both"
            )
        if found:
            return


def warn_of_missing_ep(
    prepared: Sequence[PreparedVariant],
    form: PackageFormat,
    notify: Notify,
    *,
    siblings: Sequence[VariantInfo] = (),
) -> None:
    """Says which variants without an EP ortpkg selects, but onnxruntime does not.

    onnxruntime's rules for the component generation have no wildcard.
    """
    names = [each.name for each in prepared if each.entry.constraints.ep is None]
    if names and form is not PackageFormat.METADATA:
        listed = ", ".join(map(quoted, names))
        plural = "variants" if len(names) > 1 else "variant"
        is_alone = len(names) == len(prepared) and all(
            each.constraints.ep is None for each in siblings
        )
        alone = "; one for the CPU (--cpu MODEL) beside it would be selected" if is_alone else ""
        notify(
            f"onnxruntime 1.28 and later never select the {plural} {listed}, since no ep is"
            f" named{alone}"
        )


def signatures_of(component: ComponentInfo, notify: Notify) -> list[tuple[str, ModelSignature]]:
    """What the component's variants take and give.

    A damaged one cannot be compared with, which is said.
    """
    found = []
    for variant in component.variants:
        if variant.model_path is None:
            continue
        try:
            found.append((variant.name, read_model_facts(variant.model_path).signature))
        except ModelError as error:
            notify(
                f"inputs and outputs were not compared with variant {quoted(variant.name)}: {error}"
            )
    return found
