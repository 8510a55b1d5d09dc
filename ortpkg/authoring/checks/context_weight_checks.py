"""Check the files from which weightless contexts take their weights (ORT124)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ortpkg.authoring.checks.checked_package import CheckedPackage, OpenedModel, finding_of_variant
from ortpkg.authoring.model_facts import ModelFacts, WeightlessMode, read_model_facts
from ortpkg.authoring.needed_files import NeededFiles, needed_files
from ortpkg.authoring.rules import model_rules
from ortpkg.authoring.variant_files import source_model_of, why_not_a_data_file
from ortpkg.foundations.errors import Finding, ModelError, ModelFileError, quoted
from ortpkg.package.package_info import VariantInfo
from ortpkg.package.paths.disk_places import is_inside


def check_context_weights(package: CheckedPackage) -> Iterator[Finding]:
    """Check that files from which contexts take weights exist, are plain and long enough."""
    for variant in package.variants:
        for model in package.models_of(variant):
            if model.signature is None or not model.contexts:
                continue
            for problem in _problems(package.info.root, variant, model):
                message = f"variant {quoted(variant.name)}: {problem}"
                yield finding_of_variant(model_rules.CONTEXT_WEIGHTS, variant, message)


def _problems(root: Path, variant: VariantInfo, model: OpenedModel) -> Iterator[str]:
    assert model.signature is not None
    try:
        facts = read_model_facts(model.path)
        has_own_folder = model.data_folder != model.path.parent
        needed = needed_files(
            model.path,
            facts,
            data_folder=model.data_folder if has_own_folder else None,
            source_model=source_model_of(variant),
        )
    except ModelFileError as error:
        yield str(error)
        return
    except ModelError:  # reported by the check of the model
        return
    for path in needed.elsewhere:
        if not is_inside(os.path.realpath(path), str(root)):
            yield f"its contexts take weights from {quoted(path)}, outside of the package"
            return
    yield from _missing(model, facts, needed)
    if facts.weightless_mode is WeightlessMode.ALL and not (
        model.signature.source_models or source_model_of(variant)
    ):
        yield (
            f"its contexts take all weights from the model that was compiled ({_mode(facts)}), and"
            " nothing names that"
        )


def _missing(model: OpenedModel, facts: ModelFacts, needed: NeededFiles) -> Iterator[str]:
    """Find files with weights that are missing; other checks cover external data and contexts."""
    assert model.signature is not None
    checked_paths = {Path(file.location) for file in model.signature.external_files}
    checked_paths |= {Path(location) for location in model.signature.context_files}
    data_files = [
        *((model.data_folder, location, nbytes) for location, nbytes in needed.data.items()),
        *(
            (model.path.parent, location, nbytes)
            for location, nbytes in needed.beside_model.items()
        ),
        *((path.parent, path.name, 1) for path in needed.elsewhere),
    ]
    for folder, location, nbytes in data_files:
        if Path(location) in checked_paths:
            continue
        if reason := why_not_a_data_file(folder, location, nbytes):
            statement = f"its contexts take weights from {quoted(location)} ({_mode(facts)})"
            yield f"{statement}, which {reason}"


def _mode(facts: ModelFacts) -> str:
    if facts.weightless_mode is WeightlessMode.NONE:
        return "as their container says"
    return f"weightless_mode {facts.weightless_mode.value}"
