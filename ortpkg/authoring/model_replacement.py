"""Prepare a model that replaces a variant's, and compare it with the others."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from ortpkg.authoring.agreement import differences
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.new_variant import NewVariant, Notify, PreparedVariant, prepare_variants
from ortpkg.authoring.removal import users_of_component
from ortpkg.authoring.sharing.contents import have_same_files
from ortpkg.authoring.siblings import signatures_of_variants, warn_of_fixed_dimensions
from ortpkg.authoring.variant_files import option_places
from ortpkg.foundations.errors import AuthoringError, ModelError, quoted
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo


class ModelReplacement:
    """Preparation of the files of a model that replaces a variant's.

    Args:
        package: of the variant.
        notify: called with models that could not be compared and, with ``force``, with differences.
        force: accept a model that differs from the others.
    """

    def __init__(self, package: PackageInfo, notify: Notify, *, force: bool) -> None:
        self._package = package
        self._notify = notify
        self._force = force

    def prepare(
        self, component: ComponentInfo, variant: VariantInfo, model: Path
    ) -> PreparedVariant | None:
        """Return the variant with ``model``; None if it has that already.

        Raises:
            AuthoringError: its model cannot be replaced, or this one does not fit.
        """
        if option_places(variant):
            raise AuthoringError(
                f"the session options of variant {quoted(variant.name)} name a folder of its own:"
                " add it anew instead"
            )
        constraints = variant.constraints
        new_variant = NewVariant(
            model=model,
            name=variant.name,
            ep=constraints.ep,
            device=constraints.device,
        )
        (prepared,) = prepare_variants([new_variant], self._notify)
        prepared = _with_stated_architecture(variant, prepared)
        if _is_the_same(variant, prepared):
            return None
        self._check_agreement(component, variant, prepared)
        return prepared

    def _check_agreement(
        self, component: ComponentInfo, variant: VariantInfo, prepared: PreparedVariant
    ) -> None:
        """Compare the new model with the other variants', or else with the one it replaces."""
        if prepared.files.facts is None:
            return
        ours = prepared.files.facts.signature
        others = [sibling for sibling in component.variants if sibling.name != variant.name]
        compared = [
            (quoted(name), theirs) for name, theirs in signatures_of_variants(others, self._notify)
        ]
        more = ""
        if not compared:
            compared = [
                ("the one that it replaces", theirs)
                for _, theirs in signatures_of_variants([variant], self._notify)
            ]
            users = [*users_of_component(self._package, component.name), MANIFEST]
            more = f"; what {' and '.join(users)} may say is of that"
        for named, theirs in compared:
            self._compare(ours, theirs, named, more)
        warn_of_fixed_dimensions(
            f"the new model of variant {quoted(variant.name)}", ours, compared, self._notify
        )

    def _compare(self, ours: ModelSignature, theirs: ModelSignature, named: str, more: str) -> None:
        """Raise AuthoringError, or with force warn, if the two do not agree."""
        if reasons := differences(ours, theirs):
            message = f"the new model cannot stand for {named}: {'; '.join(reasons)}{more}"
            if not self._force:
                raise AuthoringError(f"{message} (force takes it nevertheless)")
            self._notify(message)


def _with_stated_architecture(variant: VariantInfo, prepared: PreparedVariant) -> PreparedVariant:
    """Return the new variant with the architecture that the old one's constraints state.

    The architecture is not taken over if the new model states one, or if the old model did: that
    holds for the old model alone.
    """
    architecture, constraints = variant.constraints.architecture, prepared.entry.constraints
    if architecture is None or constraints.architecture is not None:
        return prepared
    if variant.model_path is not None:
        with contextlib.suppress(ModelError):
            if read_model_facts(variant.model_path).hardware_architectures == (architecture,):
                return prepared
    entry = replace(prepared.entry, constraints=constraints._replace(architecture=architecture))
    return replace(prepared, entry=entry)


def _is_the_same(variant: VariantInfo, prepared: PreparedVariant) -> bool:
    """Return True if the variant has that model, with these files, already."""
    files = {path: variant.directory / path for path in prepared.files.sources}
    model = prepared.files.model_file
    is_named_so = variant.model_path == (None if model is None else variant.directory / model)
    return (
        is_named_so
        and all(path.is_file() for path in files.values())
        and have_same_files(files, dict(prepared.files.sources))
    )
