"""Copy the files from which a newly compiled model takes weights to its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from ortpkg.authoring.model_facts import WeightlessMode, read_model_facts
from ortpkg.package.formats.executor_info import SOURCE_MODEL, data_folder_of
from ortpkg.package.package_info import VariantInfo


def bring_sources(compiled: Path, source: VariantInfo) -> dict[str, str]:
    """Copy the files from which weightless contexts take weights; do nothing for other models.

    Args:
        compiled: the compiled model of ``source``, in a folder of its own.
        source: the variant that was compiled.

    Returns:
        Session options by which a session finds the copies.
    """
    facts = read_model_facts(compiled)
    if facts.weightless_mode is WeightlessMode.NONE and not facts.context_weights:
        return {}
    assert source.model_path is not None
    for external in read_model_facts(source.model_path).signature.external_files:
        copy = compiled.parent / external.location
        if not copy.exists():  # models of a group lie in one folder
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data_folder_of(source) / external.location, copy)
    if facts.weightless_mode is WeightlessMode.NONE:
        return {}
    shutil.copyfile(source.model_path, compiled.parent / source.model_path.name)
    return {SOURCE_MODEL: source.model_path.name}
