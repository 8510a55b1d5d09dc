"""Compare new variants with their siblings: agreement of models, and selection by runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ortpkg.authoring.agreement import differences, fixed_dimension_differences
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.foundations.errors import AuthoringError, ModelError, quoted
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.package_info import ComponentInfo, PackageFormat, VariantInfo


def check_agreement(
    prepared: Sequence[PreparedVariant],
    force: bool,
    notify: Notify,
    siblings: Sequence[tuple[str, ModelSignature]] = (),
) -> None:
    """Compare each variant with ``siblings`` and with those before it.

    Raises:
        AuthoringError: inputs or outputs differ, and ``force`` is False; otherwise that is a
            warning.
    """
    compared = list(siblings)
    for variant in prepared:
        if variant.files.facts is None:
            continue
        ours = variant.files.facts.signature
        for name, theirs in compared:
            if reasons := differences(ours, theirs):
                message = (
                    f"variant {quoted(variant.name)} cannot stand for {quoted(name)}:"
                    f" {'; '.join(reasons)}"
                )
                if not force:
                    raise AuthoringError(f"{message} (force adds it nevertheless)")
                notify(message)
        warn_of_fixed_dimensions(
            f"variant {quoted(variant.name)}",
            ours,
            [(quoted(name), theirs) for name, theirs in compared],
            notify,
        )
        compared.append((variant.name, ours))


def warn_of_fixed_dimensions(
    label: str, ours: ModelSignature, others: Sequence[tuple[str, ModelSignature]], notify: Notify
) -> None:
    """Report (like ORT121) the first other model with which no feed can be shared.

    Selection ignores sizes: such variants, say for batches of 1 and of 8, are allowed, but the
    author must know that a program's feed suits only one of them.

    Args:
        label: the new model, as the sentence begins.
        ours: its inputs and outputs.
        others: name in the sentence, with inputs and outputs, of the models beside it.
        notify: called with the sentences.
    """
    for other, theirs in others:
        sizes = [] if differences(ours, theirs) else fixed_dimension_differences(ours, theirs)
        for difference in sizes:
            notify(f"{label} differs from {other}: {difference}; no feed suits both")
        if sizes:
            return


def warn_of_missing_ep(
    prepared: Sequence[PreparedVariant],
    form: PackageFormat,
    notify: Notify,
    *,
    siblings: Sequence[VariantInfo] = (),
) -> None:
    """Report variants without an EP, which ortpkg selects, but onnxruntime does not.

    onnxruntime's rules for the component generation have no wildcard.
    """
    names = [variant.name for variant in prepared if variant.entry.constraints.ep is None]
    if names and form is not PackageFormat.METADATA:
        listed = ", ".join(map(quoted, names))
        plural = "variants" if len(names) > 1 else "variant"
        is_alone = len(names) == len(prepared) and all(
            variant.constraints.ep is None for variant in siblings
        )
        alone = "; one for the CPU (--cpu MODEL) beside it would be selected" if is_alone else ""
        notify(
            f"onnxruntime 1.28 and later never select the {plural} {listed}, since no ep is"
            f" named{alone}"
        )


def signatures_of(component: ComponentInfo, notify: Notify) -> list[tuple[str, ModelSignature]]:
    """Return :func:`signatures_of_variants` for all variants of a component."""
    return signatures_of_variants(component.variants, notify)


def signatures_of_variants(
    variants: Iterable[VariantInfo], notify: Notify
) -> list[tuple[str, ModelSignature]]:
    """Return each variant's name with the inputs and outputs of its model.

    Damaged models are left out and reported to ``notify``.
    """
    signatures = []
    for variant in variants:
        if variant.model_path is None:
            continue
        try:
            signatures.append((variant.name, read_model_facts(variant.model_path).signature))
        except ModelError as error:
            notify(
                f"inputs and outputs were not compared with variant {quoted(variant.name)}: {error}"
            )
    return signatures
