"""Session options that a bare model states, if ``ORT_LOAD_CONFIG_FROM_MODEL=1`` asks for them.

As in onnxruntime: the model's metadata has them as JSON under ``ort_config``. Models of packages
are not asked: these have session options of their own, under the rules of trust.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Any

from ortpkg.errors import InvalidSessionOptionError, quoted
from ortpkg.graph.model_file import ModelSource
from ortpkg.graph.onnx_reader import load_model
from ortpkg.session.options import ExecutionMode, GraphOptimizationLevel, SessionOptions

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
    """``options``, or a copy with what the model states where the user asks for that.

    Raises InvalidSessionOptionError where the model's text is no JSON or a value is none of its
    option, and as :func:`~ortpkg.graph.onnx_reader.load_model` does.
    """
    if os.environ.get(_VARIABLE) != "1":
        return options
    text = load_model(source).metadata_props.get(_METADATA_KEY)
    if text is None:
        return options
    made = copy.deepcopy(options)
    for name, value in _stated(text).items():
        setattr(made, name, value)
    return made


def _stated(text: str) -> dict[str, int]:
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
