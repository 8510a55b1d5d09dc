"""Session options that are passed on to native libraries."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ortpkg.runtime.ep_context.ep_context_options import EXTERNAL_DATA_FOLDER
from ortpkg.runtime.providers.session_settings import (
    COMPILING_ENTRIES,
    LLVM_ENTRY_PREFIX,
    NO_CPU_FALLBACK_ENTRY,
    RUNNING_ENTRIES,
    SessionSettings,
)
from ortpkg.runtime.session.options import OPTION_ENTRIES, SessionOptions

#: Options with onnxruntime's names and meaning.
_VALUES = (
    "intra_op_num_threads",
    "inter_op_num_threads",
    "execution_mode",
    "execution_order",
    "graph_optimization_level",
    "use_deterministic_compute",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "enable_cpu_mem_arena",
    "logid",
    "log_verbosity_level",
)
#: Severities (verbose, info) that also show onnxruntime's own lines. Its errors are raised, so
#: that logging them would repeat them.
_TALKING_SEVERITIES = range(2)
_PASSED_ENTRIES = COMPILING_ENTRIES | RUNNING_ENTRIES | {NO_CPU_FALLBACK_ENTRY}
#: Entries that the session itself handles.
_OWN_PREFIXES = (
    "ortpkg.",
    "ep.context_",
    "ep.share_ep_contexts",
    "ep.stop_share_ep_contexts",
    "session.optimized_model_",
)
_OWN_ENTRIES = frozenset({EXTERNAL_DATA_FOLDER, "session.use_per_session_threads"})


def native_settings(options: SessionOptions) -> SessionSettings:
    """Return the settings for libraries; options with their default value are left to them."""
    defaults = SessionOptions()
    values: dict[str, Any] = {
        name: _plain(getattr(options, name))
        for name in _VALUES
        if getattr(options, name) != getattr(defaults, name)
    }
    if options.log_severity_level in _TALKING_SEVERITIES:
        values["log_severity_level"] = int(options.log_severity_level)
    entries = options.config_entries
    return SessionSettings(
        values=values,
        entries={key: value for key, value in entries.items() if key in _PASSED_ENTRIES},
        other_entries={
            key: value
            for key, value in entries.items()
            if key not in _PASSED_ENTRIES and not _is_own(key)
        },
    )


def _is_own(key: str) -> bool:
    if key.startswith(LLVM_ENTRY_PREFIX):  # the provider reads its entries itself
        return False
    return key in OPTION_ENTRIES or key in _OWN_ENTRIES or key.startswith(_OWN_PREFIXES)


def _plain(value: Any) -> int | bool | str:
    """Return a value as JSON has it; an enumeration's member by its name in onnxruntime."""
    return value.name if isinstance(value, Enum) else value
