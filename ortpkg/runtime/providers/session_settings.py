"""Session options for native libraries too: threads, optimization, memory, entries.

Names are onnxruntime's. The session makes the settings from its options, and each provider on a
library takes those that its library understands (``LibraryTraits``); the log names the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

#: Config entries of onnxruntime that change the compiled model. All of them only tune: none writes
#: or loads files.
COMPILING_ENTRIES: frozenset[str] = frozenset(
    {
        "optimization.constant_folding_max_output_size_in_bytes",
        "optimization.disable_specified_optimizers",
        "optimization.enable_cast_chain_elimination",
        "optimization.enable_gelu_approximation",
        "session.disable_aot_function_inlining",
        "session.disable_double_qdq_remover",
        "session.disable_qdq_constant_folding",
        "session.disable_quant_qdq",
        "session.enable_dq_matmulnbits_fusion",
        "session.enable_quant_qdq",
        "session.enable_quant_qdq_cleanup",
        "session.graph_optimizations_loop_level",
        "session.qdq_matmulnbits_accuracy_level",
        "session.qdq_matmulnbits_block_size",
        "session.qdqisint8allowed",
        "session.strict_shape_type_inference",
        "session.x64quantprecision",
    }
)
#: Config entries of onnxruntime that change how it runs the model.
RUNNING_ENTRIES: frozenset[str] = frozenset(
    {
        "mlas.disable_kleidiai",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "mlas.qnbit.force_fp32",
        "mlas.use_lut_gemm",
        "session.disable_prepacking",
        "session.dynamic_block_base",
        "session.force_spinning_stop",
        "session.inter_op.allow_spinning",
        "session.inter_op.spin_backoff_max",
        "session.inter_op.spin_duration_us",
        "session.intra_op.allow_spinning",
        "session.intra_op.spin_backoff_max",
        "session.intra_op.spin_duration_us",
        "session.intra_op_thread_affinities",
        "session.prepack.enable_parallel",
        "session.set_denormal_as_zero",
        "session.use_device_allocator_for_initializers",
        "session.use_env_allocators",
    }
)
#: Config entries that LLVMExecutionProvider reads.
LLVM_ENTRY_PREFIX = "ortpkg.llvm_"
#: Config entry that forbids onnxruntime's CPU provider; that provider itself ignores it.
NO_CPU_FALLBACK_ENTRY = "session.disable_cpu_ep_fallback"
#: Values that the session itself obeys, whatever the library does.
OBEYED_BY_SESSION = frozenset(
    {"graph_optimization_level", "logid", "log_severity_level", "log_verbosity_level"}
)
#: Values that change the compiled model.
_COMPILING_VALUES = frozenset({"graph_optimization_level", "use_deterministic_compute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Session options that were set; those with default values are left out.

    Attributes:
        values: attribute of onnxruntime's session options → number, flag, text, or the name of an
            enumeration's member.
        entries: config entries of onnxruntime that are listed above.
        other_entries: config entries that neither the session nor a library reads: those of a
            plug-in, or nobody's.
    """

    values: Mapping[str, int | bool | str] = field(default_factory=lambda: MappingProxyType({}))
    entries: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    other_entries: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __bool__(self) -> bool:
        return bool(self.values or self.entries)

    @property
    def of_compiling(self) -> dict[str, str]:
        """Settings that change what a library compiles, as texts by the keys of config entries."""
        values = {
            f"session.{key}": str(value)
            for key, value in self.values.items()
            if key in _COMPILING_VALUES
        }
        return values | {
            key: value for key, value in self.entries.items() if key in COMPILING_ENTRIES
        }

    def only(self, names: Collection[str]) -> SessionSettings:
        """Return the settings with these names: option attributes, and config entries' keys."""
        return SessionSettings(
            values={name: value for name, value in self.values.items() if name in names},
            entries={key: text for key, text in self.entries.items() if key in names},
            other_entries={key: text for key, text in self.other_entries.items() if key in names},
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON that :func:`settings_from_json` reads in a child process."""
        return {
            "values": dict(self.values),
            "entries": dict(self.entries),
            "other_entries": dict(self.other_entries),
        }


NO_SETTINGS = SessionSettings()


def settings_from_json(document: Mapping[str, Any]) -> SessionSettings:
    """Return the settings that :meth:`SessionSettings.to_json` wrote in another process of ours."""
    return SessionSettings(
        values=document["values"],
        entries=document["entries"],
        other_entries=document["other_entries"],
    )
