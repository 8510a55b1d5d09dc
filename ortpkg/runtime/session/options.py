"""Session and run options under ONNX Runtime's names, and a few of ortpkg's own.

Imports neither numpy nor onnx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.runtime.session.option_additions import OptionAdditions
from ortpkg.runtime.session.values.known_attributes import KnownAttributesOnly
from ortpkg.runtime.session.values.onnxruntime_enums import ExecutionOrder, NamedNumber

if TYPE_CHECKING:
    from ortpkg.runtime.session.lora_adapter import LoraAdapter

#: Config entry: "1" verifies every plan at session creation (slow for large models).
VERIFY_PLAN_ENTRY = "ortpkg.verify_plan"
#: Config entry: "1" checks types and shapes of the inputs and outputs of fused nodes at every run.
STRICT_FUSED_NODES_ENTRY = "ortpkg.strict_fused_nodes"
#: Config entry: which backend runs the session ("embedded", "openvino", "onnxruntime", a plug-in's
#: name).
BACKEND_ENTRY = "ortpkg.backend"
#: Config entry of ONNX Runtime: folder of external data for a model from memory.
EXTERNAL_DATA_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"

#: Config entry of ONNX Runtime: "1" makes a node that only the CPU provider can run an error.
DISABLE_CPU_FALLBACK_ENTRY = "session.disable_cpu_ep_fallback"

_SEVERITIES = range(-1, 5)
_LONGEST_CONFIG_KEY = 1024
_LONGEST_CONFIG_VALUE = 8192


class GraphOptimizationLevel(NamedNumber):
    """Level of graph transformations; those that correctness needs happen at every level."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(NamedNumber):
    """Execution of nodes one after the other, or as many at a time as inputs and threads allow."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass(slots=True, kw_only=True)
class SessionOptions(OptionAdditions):
    """Options for creating a session, and defaults for its runs.

    Setting an unknown attribute is an error.

    Attributes:
        graph_optimization_level: see :class:`GraphOptimizationLevel`.
        execution_mode: see :class:`ExecutionMode`.
        execution_order: accepted for compatibility with ONNX Runtime; every session has the order
            that ``get_plan`` shows.
        intra_op_num_threads: threads that share the work of a node; 0: as many as the
            linear-algebra library has, or one while that is faster (see
            :mod:`ortpkg.runtime.session.thread_choice`). Less than 0 is 0.
        inter_op_num_threads: threads of parallel execution; 0 or less: one per CPU.
        enable_mem_pattern: lay activations out in one block per device and set of input shapes.
        enable_mem_reuse: let values share buffers.
        enable_cpu_mem_arena: keep blocks between runs.
        enable_profiling, profile_file_prefix: write a Chrome trace at ``end_profiling``, with
            onnxruntime's file name and the time at which profiling began:
            ``<prefix>_<year>-<month>-<day>_<hour>-<minute>-<second>_<milliseconds>.json``.
        optimized_model_filepath: file for the transformed model, which onnxruntime can run too; ""
            to write none.
        log_severity_level: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal; -1: that of the process.
        log_verbosity_level, logid: accepted as in ONNX Runtime; the id appears in log lines.
        use_per_session_threads: False: the numbers of threads are those of
            ``set_global_thread_pool_sizes``.
        use_deterministic_compute: the same bits in each run on this machine; without it and with
            ``intra_op_num_threads=0`` the last bits of sums may depend on the number of threads.
        memory_limit_nbytes: most bytes that a run may use, the model's weights included, and that
            its nodes and constants may take in addition to 64 MiB; None: the memory of the machine
            (or container).
        timeout_s: most seconds for a run, and for creating the session; checked between nodes, and
            in long ones; None: no limit.
    """

    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_cpu_mem_arena: bool = True
    enable_profiling: bool = False
    profile_file_prefix: str = "onnxruntime_profile_"
    optimized_model_filepath: str | Path = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    memory_limit_nbytes: int | None = None
    timeout_s: float | None = None
    _config_entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a config entry or, for ``"session.<option>"`` of this class, that option.

        Raises:
            InvalidSessionOptionError: a key that is empty or too long, or a value that is too long
                or cannot be parsed.
        """
        _check_entry(key, value)
        if key in OPTION_ENTRIES:
            attribute, parse = OPTION_ENTRIES[key]
            try:
                setattr(self, attribute, parse(value))
            except (ValueError, KeyError, TypeError) as error:  # TypeError: the number is too large
                raise InvalidSessionOptionError(
                    f"{quoted(key)} cannot be {quoted(value)}", key=key
                ) from error
        self._config_entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return the value of a config entry; InvalidSessionOptionError if it was never set."""
        if key not in self._config_entries:
            raise InvalidSessionOptionError(
                f"there is no session config entry {quoted(key)}", key=key
            )
        return self._config_entries[key]

    @property
    def config_entries(self) -> Mapping[str, str]:
        """All config entries that were set."""
        return MappingProxyType(self._config_entries)


@dataclass(slots=True, kw_only=True)
class RunOptions(KnownAttributesOnly):
    """Options of one run. Setting an unknown attribute is an error.

    Attributes:
        terminate: set it to True, from any thread, to end the run; the run raises CancelledError
            between two nodes.
        only_execute_path_to_fetches: accepted as in ONNX Runtime; every run computes all outputs.
        logid, log_severity_level, log_verbosity_level: accepted as in ONNX Runtime.
        memory_limit_nbytes, timeout_s: limits of this run; None leaves the session's.
    """

    terminate: bool = False
    only_execute_path_to_fetches: bool = False
    logid: str = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    memory_limit_nbytes: int | None = None
    timeout_s: float | None = None
    _config_entries: dict[str, str] = field(default_factory=dict, repr=False)
    _adapters: list[LoraAdapter] = field(default_factory=list, repr=False, compare=False)

    def add_active_adapter(self, adapter: LoraAdapter) -> None:
        """Run with the adapter's tensors in place of inputs' default values.

        Feeds take precedence.
        """
        if not hasattr(adapter, "parameters"):
            raise TypeError(f"an adapter is a LoraAdapter, not {type(adapter).__name__}")
        self._adapters.append(adapter)

    @property
    def active_adapters(self) -> tuple[LoraAdapter, ...]:
        """Adapters from :meth:`add_active_adapter`, in order."""
        return tuple(self._adapters)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a config entry of the run.

        Raises:
            InvalidSessionOptionError: a key that is empty, or a key or value that is too long.
        """
        _check_entry(key, value)
        self._config_entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return the value of a config entry; InvalidSessionOptionError if it was never set."""
        if key not in self._config_entries:
            raise InvalidSessionOptionError(f"there is no run config entry {quoted(key)}", key=key)
        return self._config_entries[key]


def _check_entry(key: str, value: str) -> None:
    for text in (key, value):
        if not isinstance(text, str):
            raise TypeError(f"key and value of a config entry are texts, not {text!r}")
    if not key or len(key) > _LONGEST_CONFIG_KEY:
        raise InvalidSessionOptionError(
            f"config key {quoted(key)} must have 1 to 1024 characters", key=key
        )
    if len(value) > _LONGEST_CONFIG_VALUE:
        raise InvalidSessionOptionError(
            f"{quoted(key)} must be a text of at most 8192 characters", key=key
        )


def check_options(options: SessionOptions | RunOptions) -> None:
    """Raise InvalidSessionOptionError if the level of logging or a limit is impossible."""
    level = options.log_severity_level
    if level not in _SEVERITIES:
        raise InvalidSessionOptionError(
            f"log_severity_level is a number from -1 to 4, not {level}", key="log_severity_level"
        )
    check_limits(options.memory_limit_nbytes, options.timeout_s)


def check_limits(memory_limit_nbytes: int | None, timeout_s: float | None) -> None:
    """Raise InvalidSessionOptionError if a limit is not positive."""
    limits: tuple[tuple[str, Any], ...] = (
        ("memory_limit_nbytes", memory_limit_nbytes),
        ("timeout_s", timeout_s),
    )
    for key, value in limits:
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not value > 0
        ):
            raise InvalidSessionOptionError(
                f"{key} is a positive number or None, not {quoted(value)}", key=key
            )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _flag(text: str) -> bool:
    return {"0": False, "1": True, "false": False, "true": True}[text.lower()]


def _optimization_level(text: str) -> GraphOptimizationLevel:
    return GraphOptimizationLevel(int(text)) if text.isdigit() else GraphOptimizationLevel[text]


def _execution_mode(text: str) -> ExecutionMode:
    return ExecutionMode(int(text)) if text.isdigit() else ExecutionMode[text]


#: Config entry → the option that it sets, and how its value is read.
OPTION_ENTRIES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "session.intra_op_num_threads": ("intra_op_num_threads", _count),
    "session.inter_op_num_threads": ("inter_op_num_threads", _count),
    "session.execution_mode": ("execution_mode", _execution_mode),
    "session.graph_optimization_level": ("graph_optimization_level", _optimization_level),
    "session.enable_cpu_mem_arena": ("enable_cpu_mem_arena", _flag),
    "session.enable_mem_pattern": ("enable_mem_pattern", _flag),
    "session.enable_mem_reuse": ("enable_mem_reuse", _flag),
    "session.use_deterministic_compute": ("use_deterministic_compute", _flag),
    "session.log_id": ("logid", str),
    "session.log_severity_level": ("log_severity_level", _count),
    "session.log_verbosity_level": ("log_verbosity_level", _count),
}
