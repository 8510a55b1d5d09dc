"""Session options in a model's metadata, used if ``ORT_LOAD_CONFIG_FROM_MODEL=1`` is set.

The metadata has them as JSON under ``ort_config``, as in onnxruntime. Models of packages are not
read for options: packages have session options of their own, under the rules of trust.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.graph.model_file import ModelSource
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions

_VARIABLE = "ORT_LOAD_CONFIG_FROM_MODEL"
_METADATA_KEY = "ort_config"
_LONGEST_TEXT = 1 << 16
_THREADS = range(1 << 31)
#: Option → the numbers that it may have.
_NUMBERS: Mapping[str, range | frozenset[int]] = {
    "intra_op_num_threads": _THREADS,
    "inter_op_num_threads": _THREADS,
    "execution_mode": frozenset(map(int, ExecutionMode)),
    "graph_optimization_level": frozenset(map(int, GraphOptimizationLevel)),
    "enable_profiling": range(2),
}


def with_options_of_model(options: SessionOptions, source: ModelSource) -> SessionOptions:
    """Return ``options``, or a copy with the model's options if the user enabled them.

    Raises:
        InvalidSessionOptionError: the model's text is not JSON, or a value is not allowed.
        OrtpkgError: as :func:`~ortpkg.graph.onnx_reader.load_model`.
    """
    if os.environ.get(_VARIABLE) != "1":
        return options
    text = load_model(source).metadata_props.get(_METADATA_KEY)
    if text is None:
        return options
    changed = copy.deepcopy(options)
    for name, value in _parsed_options(text).items():
        setattr(changed, name, value)
    return changed


def _parsed_options(text: str) -> dict[str, int]:
    try:
        document: Any = json.loads(text) if len(text) <= _LONGEST_TEXT else None
    except (ValueError, RecursionError):
        document = None
    if document is None:
        raise _wrong(f"is no JSON of at most {_LONGEST_TEXT} characters")
    entries = document.get("session_options") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        return {}
    for name, allowed in _NUMBERS.items():
        value = entries.get(name)
        if name in entries and (
            isinstance(value, bool) or not isinstance(value, int) or value not in allowed
        ):
            raise _wrong(f"gives {name} the value {quoted(value)}")
    return {name: entries[name] for name in _NUMBERS if name in entries}


def _wrong(what: str) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(
        f"the model's metadata {_METADATA_KEY!r} {what}; {_VARIABLE}=1 asks for it",
        key=_METADATA_KEY,
    )
