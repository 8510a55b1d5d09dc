"""List the files that a model needs beside it, including those of weightless contexts.

A compiled model is weightless if its contexts leave out weights, and the execution provider takes
them from the source model, or from that model's data files. Source: onnxruntime's
docs/design/Weightless_Mode.md (1.32; the metadata key ``weightless_mode``), and the index of the
containers that onnxruntime's OpenVINO provider writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from ortpkg.authoring.model_facts import ModelFacts, WeightlessMode
from ortpkg.foundations.errors import ModelError, ModelFileError, quoted
from ortpkg.graph.external_data import check_location
from ortpkg.graph.model_signature import read_model_signature


class NeededFiles(NamedTuple):
    """Files that a model needs: normalized relative path → smallest valid size in bytes.

    Attributes:
        data: in the folder of external data, which is the model's unless an option names another.
        beside_model: in the model's own folder, whatever an option says.
        elsewhere: the source model in another folder, and its data: absolute path → its place
            beside the model.
        is_complete: False if the contexts take weights from unknown data files, because the source
            model, which names them, is not on the disk.
    """

    data: Mapping[str, int]
    beside_model: Mapping[str, int]
    elsewhere: Mapping[Path, str]
    is_complete: bool = True

    @property
    def locations(self) -> dict[str, int]:
        """Paths of all files, for a model that has its data beside it, with their sizes."""
        locations = dict(self.data)
        for location, nbytes in self.beside_model.items():
            locations[location] = max(nbytes, locations.get(location, 0))
        return locations

    def current_paths(self, model: Path, data_folder: Path) -> dict[str, Path]:
        """Map the path of each file relative to a folder of ``model`` to its current path."""
        return {
            **{location: data_folder / location for location in self.data},
            **{location: model.parent / location for location in self.beside_model},
            **{location: path for path, location in self.elsewhere.items()},
        }


def needed_files(
    model: Path,
    facts: ModelFacts,
    *,
    data_folder: Path | None = None,
    source_model: Path | None = None,
) -> NeededFiles:
    """Return the files that a model needs beside itself.

    Args:
        model: path to the model file.
        facts: of the model.
        data_folder: the folder of external data that a session option names; None for the model's.
        source_model: the value of the option ``ep.context_source_model_path``; None if it is not
            set, and the names in the contexts count.

    Raises:
        ModelFileError: contexts take all weights from a model that they name by an absolute path.
    """
    data = {_normal(file.location): file.nbytes for file in facts.signature.external_files}
    for location, nbytes in facts.context_weights.items():
        check_location(location, "the weights of a context")
        data[_normal(location)] = max(nbytes, data.get(_normal(location), 0))
    beside_model = {_normal(location): 1 for location in facts.signature.context_files}
    if facts.weightless_mode is WeightlessMode.NONE:
        return NeededFiles(data=data, beside_model=beside_model, elsewhere={})
    elsewhere: dict[Path, str] = {}
    sources = _sources(model, facts, source_model)
    is_complete = bool(sources)
    for source, stated_path in sources.items():
        locations = _data_of(source)
        is_complete = is_complete and locations is not None
        is_beside = source_model is None and ".." not in PurePosixPath(stated_path).parts
        # A source that only names its data is needed if it could be read here.
        is_needed = facts.weightless_mode is WeightlessMode.ALL or locations is not None
        if is_needed and is_beside:
            beside_model[stated_path] = 1
        elif is_needed:
            elsewhere[source] = source.name
        for location, nbytes in (locations or {}).items():
            if data_folder is not None:
                data[location] = max(nbytes, data.get(location, 0))
            elif is_beside:
                beside_model[(PurePosixPath(stated_path).parent / location).as_posix()] = nbytes
            else:
                elsewhere[source.parent / location] = location
    return NeededFiles(
        data=data, beside_model=beside_model, elsewhere=elsewhere, is_complete=is_complete
    )


def _sources(model: Path, facts: ModelFacts, source_model: Path | None) -> dict[Path, str]:
    """Map each source model to its path from the folder of ``model``."""
    if source_model is not None:
        return {source_model: source_model.name}
    sources: dict[Path, str] = {}
    for name in facts.signature.source_models:
        path = PureWindowsPath(name)
        if path.drive or path.root or "\0" in name:
            if facts.weightless_mode is WeightlessMode.ALL:
                raise ModelFileError(
                    f"{quoted(model.name)} takes its weights from {quoted(name)}, which is no"
                    " relative path"
                )
            continue
        # Contexts may name a model in another folder, where it was when they were compiled.
        real = Path(os.path.normpath(model.parent / name))
        sources[real] = PurePosixPath(os.path.normpath(name)).as_posix()
    return sources


def _data_of(source: Path) -> dict[str, int] | None:
    """Return the data files of a source model; None if it is missing or cannot be read."""
    try:
        signature = read_model_signature(source)
    except ModelError:
        return None
    return {_normal(file.location): file.nbytes for file in signature.external_files}


def _normal(location: str) -> str:
    return PurePosixPath(location).as_posix()
