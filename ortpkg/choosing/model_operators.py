"""What variants' models need that not everybody has, read from their files on demand.

What took a long walk over all nodes is remembered, per user, by what the file system says of the
file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator
from ortpkg.graph.onnx_operators import ONNX_VERSION
from ortpkg.package.package_info import VariantInfo
from ortpkg.providers.machine_offer import MachineOffer
from ortpkg.providers.operator_support import read_operators
from ortpkg.selection.operators import OperatorEvidence
from ortpkg.storage.fact_cache import read_fact, write_fact
from ortpkg.storage.file_stamp import FileStamp

_KIND = "model_operators"
_MOST_KEPT = 500
#: A walk that takes less time, as one over a small file does, is no dearer than to look for what is
#: remembered of it. What walks is loaded for the first one, which counts.
_LEAST_WORTH_S = 0.002
_LEAST_NBYTES = 1 << 14


class ModelNeeds:
    """What the models of one selection need; each is asked once."""

    def __init__(self) -> None:
        self._found: dict[Path, ModelOperators | None] = {}

    def of_variant(self, variant: VariantInfo) -> ModelOperators | None:
        """None where nobody can tell: a set of files, or a model that is not here or unreadable."""
        path = variant.model_path
        if path is None:
            return None
        if path not in self._found:
            self._found[path] = read_model_operators(path)
        return self._found[path]


def operator_evidence(offer: MachineOffer) -> OperatorEvidence:
    """Tell a selection on ``offer`` what models need, and what EP devices have of it."""
    return OperatorEvidence(needs=ModelNeeds().of_variant, support=offer.operator_support)


def read_model_operators(path: Path) -> ModelOperators | None:
    """What the model at ``path`` needs, from memory where the file is as it was."""
    try:
        stamp = FileStamp.of(path.stat())
    except (OSError, ValueError):
        return None
    key = {"path": os.fspath(path), "stamp": list(stamp), "onnx": ONNX_VERSION}
    if stamp.nbytes < _LEAST_NBYTES:
        return _scanned(path)
    is_settled = stamp.is_settled()
    remembered = _from_json(read_fact(_KIND, key)) if is_settled else None
    if remembered is not None:
        return remembered
    start_s = time.perf_counter()
    found = _scanned(path)
    if found is not None and is_settled and time.perf_counter() - start_s >= _LEAST_WORTH_S:
        write_fact(_KIND, key, found._asdict(), keep=_MOST_KEPT)
    return found


def _scanned(path: Path) -> ModelOperators | None:
    from ortpkg.graph.operator_scan import scan_model_file  # only where nothing is remembered

    return scan_model_file(path, limits=ModelLimits())


def _from_json(stored: object) -> ModelOperators | None:
    match stored:
        case {
            "operators": list(operators),
            "context_sources": list(sources),
            "undefined": list(undefined),
            "deprecated": list(deprecated),
            "opset": int() | None as opset,
        }:
            return ModelOperators(
                operators=tuple(read_operators(operators)),
                context_sources=tuple(each for each in sources if isinstance(each, str)),
                undefined=tuple(_read_onnx_operators(undefined)),
                deprecated=tuple(_read_onnx_operators(deprecated)),
                opset=opset,
            )
    return None


def _read_onnx_operators(stored: list[object]) -> Iterator[OnnxOperator]:
    for each in stored:
        match each:
            case [str(domain), str(name), int() | None as opset]:
                yield OnnxOperator(domain, name, opset)
