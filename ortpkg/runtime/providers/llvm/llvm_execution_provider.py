"""LLVMExecutionProvider: partitions as machine code of the CPU, made by LLVM or kept as a context.

Running a context takes numpy alone; llvmlite is needed only to compile. ``docs/machine_code.md``
describes what a partition becomes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ortpkg.compiler.machine_code.abi import (
    ABI_VERSION,
    COMPILER_VERSION,
    LEAST_COMPILER_VERSION,
    reason_against_compiler,
)
from ortpkg.compiler.machine_code.compilation_stages import KEEP_TEXT_ENTRY, Stage, StageTexts
from ortpkg.compiler.machine_code.cpu_targets import (
    PRECISION_OPTION,
    TARGET_OPTION,
    reason_against_this_machine,
    target_named,
)
from ortpkg.compiler.machine_code.executable_memory import reason_against_code
from ortpkg.compiler.machine_code.launch_plan import ShapesMisfitError
from ortpkg.compiler.machine_code.loaded_program import LoadedProgram
from ortpkg.compiler.machine_code.program_parts import dump_parts, load_compiled, load_parts
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.ep_names import LLVM_EP, context_sources_of
from ortpkg.foundations.errors import EpContextError, UsageError, missing_library_text, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    ContextMismatch,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    FusedNode,
    GraphViewer,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.exporting_provider import ExportingProvider
from ortpkg.runtime.providers.llvm.llvm_compatibility import compatibility_info
from ortpkg.runtime.providers.llvm.llvm_compiler import has_compiler
from ortpkg.runtime.providers.llvm.llvm_options import read_options
from ortpkg.runtime.providers.llvm.llvm_texts import PartitionSources
from ortpkg.runtime.providers.numpy_standby import StandbyPartition, can_stand_by, forget_arrays
from ortpkg.runtime.providers.partition_body import fused_node_of
from ortpkg.runtime.providers.session_settings import LLVM_ENTRY_PREFIX, NO_CPU_FALLBACK_ENTRY
from ortpkg.runtime.providers.supported_subgraphs import subgraph_claim, supported_subgraphs

if TYPE_CHECKING:
    from ortpkg.compiler.assembly.compilation_target import CompilationTarget
    from ortpkg.compiler.compiler import Compiler

_log = logging.getLogger(__name__)

#: Config entry: "1" checks every access to memory against its bounds.
CHECK_ENTRY = f"{LLVM_ENTRY_PREFIX}check"
#: Config entry: "0" makes convolutions add up their windows one by one.
WINOGRAD_ENTRY = f"{LLVM_ENTRY_PREFIX}winograd"
#: Config entry: "0" makes runs fail whose shapes the code was not compiled for.
STANDBY_ENTRY = f"{LLVM_ENTRY_PREFIX}standby"
_COMPILER = "compiler"
_IR_VERSION = 10
_MOST_NAMES_SHOWN = 5
#: Most times that the rest of claims is grouped again.
_MOST_ROUNDS = 16
_HAS_GRAPHS = "its operator is not compiled"
_UNUSED = "nobody uses what it makes"
_UNSETTLED = f"its neighbours were left to others one after another, {_MOST_ROUNDS} times"


class LLVMExecutionProvider(ExportingProvider):
    """Execution provider that runs partitions as machine code."""

    backend = "llvm"
    context_sources = context_sources_of(LLVM_EP)
    computes_natively = True
    obeyed_settings = frozenset(
        {"intra_op_num_threads", CHECK_ENTRY, KEEP_TEXT_ENTRY, STANDBY_ENTRY, WINOGRAD_ENTRY}
    )

    def __init__(
        self, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        """Read the options; InvalidSessionOptionError for an option or value without code."""
        super().__init__(LLVM_EP, ep_devices=ep_devices, options=options)
        self._requested = read_options(self.options)
        self._team: ThreadTeam | None = None
        self._compiler: Compiler | None = None
        self._partitions: list[LoadedProgram] = []
        self._standbys: list[StandbyPartition] = []
        self._reasons: dict[str, None] = {}
        self._refusals: dict[int, str] = {}
        self._kept = PartitionSources()

    # --- claims -----------------------------------------------------------------------------------

    def supported_nodes(
        self,
        viewer: GraphViewer,
        types_of: Callable[[Node], Mapping[str, ElementType]],  # noqa: ARG002 - the graph says more
    ) -> Collection[int]:
        """Return the nodes that the compiler lowers; it knows their sizes, or formulas of them."""
        free = [node for node in viewer.nodes if not node.execution_provider]
        self._refusals = {}
        reason = self._reason_against_compiling()
        if reason is not None:
            self._reasons[reason] = None
            self._refusals = dict.fromkeys((node.index for node in free), reason)
            _log.warning("%s compiles nothing: %s", self.name, reason)
            return ()
        # the compiler and its modules are loaded only if something is to be compiled
        from ortpkg.compiler.claims import reasons_against
        from ortpkg.graph.shapes.inference import infer_sizes

        if viewer.graph.parent is None:
            sizes = infer_sizes(Model(graph=viewer.graph, ir_version=_IR_VERSION))
            against = reasons_against(viewer.graph, free, sizes)
        else:
            against = self._reasons_in_inner_graph(viewer.graph, free)
        self._refuse(viewer.graph, against)
        return [node.index for node in free if node.index not in against]

    def _reasons_in_inner_graph(self, graph: Graph, free: Sequence[Node]) -> Mapping[int, str]:
        """Return why nodes of a branch or a loop's body are not compiled, by index.

        The nodes are checked as one partition, whose inputs are the values from elsewhere: the
        graphs around them are neither inferred nor changed.
        """
        from ortpkg.compiler.claims import reasons_against
        from ortpkg.graph.shapes.inference import infer_sizes

        against = {node.index: _HAS_GRAPHS for node in free if node.subgraphs}
        nodes = [node for node in free if not node.subgraphs]
        claim = subgraph_claim(graph, tuple(node.index for node in nodes), graph.name)
        if claim is None:
            return against | dict.fromkeys((node.index for node in nodes), _UNUSED)
        assert claim.meta_def is not None
        body = fused_node_of(graph, nodes, claim.meta_def, self.name).body
        sizes = infer_sizes(Model(graph=body, ir_version=_IR_VERSION))
        copies = list(body.nodes)
        indices = {copy.index: node.index for copy, node in zip(copies, nodes, strict=True)}
        for index, reason in reasons_against(body, copies, sizes).items():
            against[indices[index]] = reason
        return against

    def claim_subgraphs(
        self, viewer: GraphViewer, supported: Collection[int]
    ) -> list[ComputeCapability | None]:
        """Return the maximal sub-graphs that can be compiled as they are.

        Nodes that cannot be compiled inside a group are left out, and the others are grouped again.
        In the end nodes that no path connects join one partition: a run then is one call.
        """
        remaining = set(supported)
        for _ in range(_MOST_ROUNDS):
            groups = supported_subgraphs(viewer, remaining, joins_apart=True)
            against: dict[int, str] = {}
            for group in groups:
                against |= self._reasons_of_group(viewer, group)
            if not against:
                return self._claims_of(viewer, self._worthwhile(viewer, groups))
            self._refuse(viewer.graph, against)
            remaining -= against.keys()
        self._refuse(viewer.graph, dict.fromkeys(sorted(remaining), _UNSETTLED))
        return []

    def _worthwhile(
        self, viewer: GraphViewer, groups: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """Return the groups that save more time than a call of compiled code costs.

        A main graph that is one partition is always compiled, since its run is a single call
        anyway. The body of a loop is called in every iteration.
        """
        from ortpkg.compiler.claims import reason_against_piece  # as above

        if viewer.graph.parent is None and sum(map(len, groups)) == len(viewer.nodes):
            return list(groups)
        worthwhile: list[tuple[int, ...]] = []
        for group in groups:
            nodes = [viewer.graph.node(index) for index in group]
            reason = reason_against_piece(viewer.graph, nodes)
            if reason is None:
                worthwhile.append(group)
            else:
                self._refuse(viewer.graph, dict.fromkeys(group, reason))
        return worthwhile

    def _reasons_of_group(self, viewer: GraphViewer, group: tuple[int, ...]) -> dict[int, str]:
        """Return why nodes of a group cannot be compiled after all.

        If that is all of them, each part is checked by itself: if no path connects the parts, one
        of them may be at fault alone.
        """
        reasons = self._reasons_inside(viewer.graph, group)
        if len(reasons) < len(group):
            return reasons
        parts = supported_subgraphs(viewer, group)
        if len(parts) == 1:
            return reasons
        return {
            index: reason
            for part in parts
            for index, reason in self._reasons_inside(viewer.graph, part).items()
        }

    def _reasons_inside(self, graph: Graph, group: tuple[int, ...]) -> dict[int, str]:
        """Return why nodes of a group cannot be compiled after all, by their index in the graph."""
        claim = subgraph_claim(graph, group, self._partition_name(graph))
        if claim is None:
            return {}
        assert claim.meta_def is not None
        nodes = [graph.node(index) for index in group]
        body = fused_node_of(graph, nodes, claim.meta_def, self.name).body
        makers = {name: node.index for node in nodes for name in node.outputs if name}
        reasons = {}
        for index, reason in self._session_compiler().reasons_against(body).items():
            output = next(name for name in body.node(index).outputs if name)
            reasons[makers[output]] = reason
        return reasons

    def _reason_against_compiling(self) -> str | None:
        """Return why nothing is compiled here at all; None if it is."""
        if not has_compiler():
            return missing_library_text("compiling", "llvmlite")
        if (
            reason_against_this_machine(self._requested.target, self._compilation_target().extras)
            is None
        ):
            return reason_against_code()
        return None  # the code is kept for another machine

    def get_refusal(self) -> str:
        if self._partitions:
            return ""
        return "; ".join(list(self._reasons)[:_MOST_NAMES_SHOWN])

    def get_node_refusals(self) -> Mapping[int, str]:
        return self._refusals

    def _refuse(self, graph: Graph, against: Mapping[int, str]) -> None:
        self._refusals |= against
        for index, reason in against.items():
            self._reasons[f"{graph.node(index).op_type}: {reason}"] = None

    # --- compiling and loading --------------------------------------------------------------------

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        try:
            made = super().compile(fused_nodes)
        finally:
            self._close_compiler()
        if not self._keeps_texts:  # weights are packed by now; graphs need not hold them
            for fused in fused_nodes:
                if self._stands_by(fused):
                    forget_arrays(fused.body)
                    continue
                for name in list(fused.body.initializers):
                    fused.body.remove_initializer(name)
        return made

    def _stands_by(self, fused: FusedNode) -> bool:
        """Return True if runs with shapes that the code was not compiled for go to numpy."""
        return (
            self.graph_engine is not None
            and self.context_node_of(fused) is None
            and self.session_settings.entries.get(NO_CPU_FALLBACK_ENTRY) != "1"
            and self.session_settings.other_entries.get(STANDBY_ENTRY) != "0"
            and can_stand_by(fused.body)
        )

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        made = self._session_compiler().compile(fused.body)
        constants = {name: value.data for name, value in made.constants.items()}
        parts = cache(partial(dump_parts, made.program, made.code, constants))
        reason = reason_against_this_machine(self._requested.target, self._requested.extras)
        if self._keeps_texts:
            self._kept.keep(fused, parts())
        if reason is not None:
            return _foreign_partition(fused.node.name, parts, reason)
        loaded = load_compiled(made.program, made.code, constants, self._thread_team())
        return self._runnable(loaded, parts, fused)

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        del fused
        assert isinstance(compiled, _MachineCodePartition)
        return compiled.parts()

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        if self._keeps_texts:
            self._kept.keep(fused, entry.parts)
        loaded = load_parts(entry.parts, self._thread_team())
        return self._runnable(loaded, lambda: entry.parts, fused)

    def get_compiled_texts(
        self, fused_node: str, stages: Collection[Stage], kernel: str | None = None
    ) -> StageTexts:
        return self._kept.texts(fused_node, self._compilation_target(), stages, kernel)

    @property
    def _keeps_texts(self) -> bool:
        return self.session_settings.other_entries.get(KEEP_TEXT_ENTRY) == "1"

    def _thread_team(self) -> ThreadTeam:
        if self._team is None:
            self._team = ThreadTeam(self._thread_count())
        return self._team

    def _runnable(
        self, loaded: LoadedProgram, parts: Callable[[], Mapping[str, Part]], fused: FusedNode
    ) -> CompiledPartition:
        self._partitions.append(loaded)
        if self.graph_engine is None or not self._stands_by(fused):
            return _MachineCodePartition(loaded.compute, parts)
        standby = StandbyPartition(fused.body, self.graph_engine, self.name)
        self._standbys.append(standby)

        def compute(inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
            try:
                return loaded.compute(inputs, context)
            except ShapesMisfitError as error:
                return standby.compute(inputs, context, error)

        return _MachineCodePartition(compute, parts)

    def _close_compiler(self) -> None:
        """Release the compiler, with what it keeps for the next partition."""
        if self._compiler is not None:
            self._compiler.close()
            self._compiler = None

    def close(self) -> None:
        self._close_compiler()
        for partition in self._partitions:
            partition.close()
        for standby in self._standbys:
            standby.release()
        if self._team is not None:
            self._team.close()

    # --- environment ------------------------------------------------------------------------------

    def describe_environment(self) -> ContextDescriptor:
        return ContextDescriptor(
            ep=self.name,
            sdk_version=f"machine code ABI {ABI_VERSION}",
            device="CPU",
            architecture=self._requested.target.architecture,
            options={
                TARGET_OPTION: self._requested.target.name,
                _COMPILER: str(COMPILER_VERSION),
                "extras": ",".join(self._requested.extras),
                PRECISION_OPTION: self._requested.precision,
                "check": str(int(self._is_checked())),
                "winograd": str(int(not self._sums_directly())),
            },
        )

    def find_mismatch(
        self, recorded: ContextDescriptor, here: ContextDescriptor
    ) -> ContextMismatch | None:
        """Return why the code must not run on this machine, or None; it may be for an older CPU."""
        same = replace(here, architecture=recorded.architecture, options=recorded.options)
        mismatch = find_mismatch(recorded, same)
        if mismatch is not None:
            return mismatch
        compiler = recorded.options.get(_COMPILER, "")
        if reason_against_compiler(compiler) is not None:
            return ContextMismatch(
                field="sdk_version",
                recorded=f"compiler {compiler}",
                needed=(
                    f"compiler {LEAST_COMPILER_VERSION} or newer: older code may write past the end"
                    " of a buffer"
                ),
            )
        target = recorded.options.get(TARGET_OPTION, "")
        extras = tuple(filter(None, recorded.options.get("extras", "").split(",")))
        reason = self._reason_against(target, extras)
        if reason is None:
            return None
        needed = f"{self._requested.target.name}, where {reason}"
        return ContextMismatch(field="architecture", recorded=target, needed=needed)

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:
        del graph
        return compatibility_info(
            self._requested.target, self._requested.extras, precision=self._requested.precision
        )

    def _session_compiler(self) -> Compiler:
        from ortpkg.compiler.compiler import Compiler  # as above

        if self._compiler is None:
            cache = self.ep_context.cache
            kernels = None if cache is None else cache.kernels
            self._compiler = Compiler(self._compilation_target(), kernels)
        return self._compiler

    def _compilation_target(self) -> CompilationTarget:
        from ortpkg.compiler.assembly.compilation_target import CompilationTarget  # as above

        return CompilationTarget(
            self._requested.target,
            self._requested.extras,
            is_checked=self._is_checked(),
            multiplies_bfloat=self._requested.multiplies_bfloat,
            sums_directly=self._sums_directly(),
        )

    def _is_checked(self) -> bool:
        return self.session_settings.other_entries.get(CHECK_ENTRY) == "1"

    def _sums_directly(self) -> bool:
        return self.session_settings.other_entries.get(WINOGRAD_ENTRY) == "0"

    def _thread_count(self) -> int:
        count = self.session_settings.values.get("intra_op_num_threads", 0)
        return count if isinstance(count, int) else 0

    @staticmethod
    def _reason_against(target: str, extras: Sequence[str]) -> str | None:
        try:
            return reason_against_this_machine(target_named(target), extras)
        except UsageError as error:
            return str(error)


class _MachineCodePartition:
    """Compute function of a loaded program, and a function that returns its context's parts."""

    def __init__(
        self,
        compute: Callable[[Sequence[Any], OpKernelContext], Sequence[Any]],
        parts: Callable[[], Mapping[str, Part]],
    ) -> None:
        self.compute = compute
        self.parts = parts


def _foreign_partition(
    name: str, parts: Callable[[], Mapping[str, Part]], reason: str
) -> _MachineCodePartition:
    """Return code that was compiled here for another machine: it can be kept, not run."""

    def compute(_inputs: Sequence[Any], _context: OpKernelContext) -> Sequence[Any]:
        raise EpContextError(
            f"the code of partition {quoted(name)} does not run here: {reason}",
            ep_name=LLVM_EP,
            partition_name=name,
        )

    return _MachineCodePartition(compute, parts)
