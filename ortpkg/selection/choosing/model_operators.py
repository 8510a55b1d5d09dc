"""Unusual operators that variants' models need, read from their files on demand.

The result of a long walk over all nodes is stored, per user, under the file's stamp.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator
from ortpkg.graph.onnx_operators import ONNX_VERSION
from ortpkg.package.package_info import VariantInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.runtime.providers.operator_support import read_operators
from ortpkg.selection.matching.operators import OperatorEvidence

_KIND = "model_operators"
_MOST_KEPT = 500
#: Least seconds of a walk whose result is stored: a lookup takes as long as a short walk. The first
#: walk of a process includes loading its module.
_LEAST_WORTH_S = 0.002
_LEAST_NBYTES = 1 << 14


class ModelNeeds:
    """Needs of the models of one selection; each is determined once."""

    def __init__(self) -> None:
        self._operators: dict[Path, ModelOperators | None] = {}

    def of_variant(self, variant: VariantInfo) -> ModelOperators | None:
        """Return the needs of a variant.

        None if unknown: a set of files, or a missing or unreadable model.
        """
        path = variant.model_path
        if path is None:
            return None
        if path not in self._operators:
            self._operators[path] = read_model_operators(path)
        return self._operators[path]


def operator_evidence(offer: MachineOffer) -> OperatorEvidence:
    """Return the needs of models, and the operators of EP devices, for a selection on ``offer``."""
    return OperatorEvidence(needs=ModelNeeds().of_variant, support=offer.operator_support)


def read_model_operators(path: Path) -> ModelOperators | None:
    """Return the needs of the model at ``path``, from the fact cache if the file is unchanged."""
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
    needs = _scanned(path)
    if needs is not None and is_settled and time.perf_counter() - start_s >= _LEAST_WORTH_S:
        write_fact(_KIND, key, needs._asdict(), keep=_MOST_KEPT)
    return needs


def _scanned(path: Path) -> ModelOperators | None:
    from ortpkg.graph.operator_scan import scan_model_file  # imported only if nothing is stored

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
                context_sources=tuple(source for source in sources if isinstance(source, str)),
                undefined=tuple(_read_onnx_operators(undefined)),
                deprecated=tuple(_read_onnx_operators(deprecated)),
                opset=opset,
            )
    return None


def _read_onnx_operators(stored: list[object]) -> Iterator[OnnxOperator]:
    for entry in stored:
        match entry:
            case [str(domain), str(name), int() | None as opset]:
                yield OnnxOperator(domain, name, opset)
