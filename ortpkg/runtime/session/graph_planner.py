"""Plan a partitioned graph: steps, allocation, memory pattern, then kernels and weights.

Sub-graphs (If, Loop, Scan) are planned before the graph that contains them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial

import numpy as np

from ortpkg.foundations.host.cores import usable_cores
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.topology import all_graphs, topological_order
from ortpkg.runtime.engine.allocation_planner import AllocationPlan
from ortpkg.runtime.engine.async_executor import AsyncExecutor
from ortpkg.runtime.engine.device_copies import Crossings, copy_compute, insert_copies, is_copy
from ortpkg.runtime.engine.executable_graph import ExecutableGraph, Execute, Subgraph
from ortpkg.runtime.engine.execution_frame import ExecutionFrame
from ortpkg.runtime.engine.execution_plan import ExecutionPlan, NodeStep, create_execution_plan
from ortpkg.runtime.engine.fused_kernel import FusedKernel, checked_kernel, fused_compute
from ortpkg.runtime.engine.helper_threads import HelperThreads
from ortpkg.runtime.engine.instructions import Instruction
from ortpkg.runtime.engine.kernel_lookup import find_kernels
from ortpkg.runtime.engine.memories import memories_of
from ortpkg.runtime.engine.memory_pattern import (
    MemoryPatternGroup,
    has_symbolic_sizes,
    trace_static_shapes,
)
from ortpkg.runtime.engine.memory_planning import plan_memory
from ortpkg.runtime.engine.parallel_executor import ParallelExecutor
from ortpkg.runtime.engine.pending import waiting
from ortpkg.runtime.engine.plan_verifier import verify_plan
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.engine.provider_answers import end_quietly, guard, guarded_kernel, is_foreign
from ortpkg.runtime.engine.run_gate import RunGate
from ortpkg.runtime.engine.sequential_executor import execute_sequentially
from ortpkg.runtime.engine.size_classes import STATIC_CLASS, SizeClassPlanner
from ortpkg.runtime.engine.value_sizes import symbol_sources, value_sizes
from ortpkg.runtime.engine.workspace import WorkspacePool
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, Value
from ortpkg.runtime.kernels.op_kernel_info import make_compute
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, GraphViewer, InfoOf
from ortpkg.runtime.session.options import (
    STRICT_FUSED_NODES_ENTRY,
    VERIFY_PLAN_ENTRY,
    SessionOptions,
)


class GraphPlanner:
    """Planner of a partitioned graph and of its nodes' sub-graphs.

    Attributes:
        releases: functions that free the states of compiled partitions, in order of creation.
    """

    def __init__(
        self,
        options: SessionOptions,
        providers: Sequence[ExecutionProvider],
        fused: Mapping[Node, FusedKernel],
        profiler: Profiler | None = None,
        threads: HelperThreads | None = None,
        *,
        info_of: InfoOf | None = None,
    ) -> None:
        """Create the planner of one session.

        Args:
            options: options of the session.
            providers: execution providers whose kernels run the nodes.
            fused: the compiled partition behind each fused node.
            profiler: profiler of the session, if it profiles.
            threads: threads of parallel execution.
            info_of: information for the kernel factory of a node, if it is more than the graph has.
                Such a graph is part of another, which admits runs and checks files.
        """
        self._options = options
        self._providers = providers
        self._fused = fused
        self._profiler = profiler
        self._threads = threads
        self._info_of = info_of
        self._memories = memories_of(providers)
        self._by_name = {provider.name: provider for provider in reversed(providers)}
        self._foreign = {
            name: provider for name, provider in self._by_name.items() if is_foreign(provider)
        }
        self._crossings = Crossings({}, {})
        self.releases: list[Callable[[], None]] = []

    def plan(self, graph: Graph) -> ExecutableGraph:
        """Insert copies between memories and plan the graph and its sub-graphs.

        For each graph: execution plan, allocation plan and memory pattern (verified if asked for),
        kernels and weights.
        """
        self._crossings = insert_copies(graph, self._memories.devices, self._kernels)
        return self._plan(graph)

    def _kernels(self, graph: Graph) -> Mapping[int, KernelDef]:
        kernels = find_kernels(graph, self._providers, self._fused)
        for node in graph.nodes:
            if is_copy(node) and not self._memories.devices[node.execution_provider].is_divisible:
                kernels[node.index] = replace(kernels[node.index], uses_output_buffer=False)
            slots = self._crossings.host_slots.get(node)
            if slots is not None:
                kernels[node.index] = replace(
                    kernels[node.index], host_inputs=slots.inputs, host_outputs=slots.outputs
                )
        return kernels

    def _plan(self, graph: Graph) -> ExecutableGraph:
        subgraphs = {
            (node.index, attribute): self._plan(subgraph)
            for node in graph.nodes
            if node not in self._fused
            for attribute, subgraph in node.subgraphs.items()
        }
        is_parallel = self._threads is not None and graph.parent is None
        viewer = GraphViewer(graph, topological_order(graph))
        plan = create_execution_plan(
            viewer,
            self._memories.devices,
            self._kernels(graph),
            self._crossings.value_devices.get(graph),
        )
        allocation = plan_memory(
            plan,
            value_sizes(graph, plan),
            enable_reuse=self._options.enable_mem_reuse,
            parallel=is_parallel,
            has_pattern=self._options.enable_mem_pattern,
        )
        patterns = trace_static_shapes(plan, allocation).generate_patterns()
        if self._verifies:
            verify_plan(plan, allocation, patterns)
        size_classes = self._size_classes(graph, plan, allocation)
        pool = None
        if self._options.enable_mem_pattern and not is_parallel:
            pool = self._workspace_pool(allocation, None if size_classes is not None else patterns)
        return ExecutableGraph(
            plan=plan,
            allocation=allocation,
            computes=self._computes(graph, plan, is_parallel=is_parallel),
            constants=self._constants(graph, plan),
            subgraphs={
                key: Subgraph(executable, self._captures(plan, executable))
                for key, executable in subgraphs.items()
            },
            execute=self._executor(graph, plan, is_parallel=is_parallel),
            pool=pool,
            size_classes=size_classes,
            gate=self._gate(graph),
            memories=self._memories,
            is_subgraph=graph.parent is not None,
            is_native=self._profiler is None and all(map(self._is_own_native, graph.nodes)),
        )

    @property
    def _verifies(self) -> bool:
        return self._options.config_entries.get(VERIFY_PLAN_ENTRY) == "1"

    def _size_classes(
        self, graph: Graph, plan: ExecutionPlan, allocation: AllocationPlan
    ) -> SizeClassPlanner | None:
        """Return the planner for the sizes of a run; None for static sizes, and for sub-graphs."""
        if graph.parent is not None or not has_symbolic_sizes(allocation):
            return None
        sources = symbol_sources(graph, plan)
        return SizeClassPlanner(plan, allocation, sources, verifies=self._verifies)

    def _gate(self, graph: Graph) -> RunGate | None:
        """Return the gate that runs enter by; None for a graph that runs inside another's run."""
        is_whole = graph.parent is None and self._info_of is None
        return RunGate(_mapped_files(graph)) if is_whole else None

    def _constants(self, graph: Graph, plan: ExecutionPlan) -> dict[int, Value]:
        """Return each constant in the memory in which its readers expect it.

        Constants for a device are copied there now, once.
        """
        constants: dict[int, Value] = {}
        for name, initializer in graph.initializers.items():
            poll_load()
            index = plan.values.index_of(name)
            constants[index] = self._memories.placed(
                plan.locations[index], initializer.numpy(), name
            )
        return constants

    @staticmethod
    def _captures(plan: ExecutionPlan, subgraph: ExecutableGraph) -> tuple[int, ...]:
        """Return the indices, in the surrounding graph, of a sub-graph's outer values."""
        names = (subgraph.plan.values.name_of(index) for index in subgraph.plan.outer_values)
        return tuple(plan.values.index_of(name) for name in names)

    def _executor(self, graph: Graph, plan: ExecutionPlan, *, is_parallel: bool) -> Execute:
        """Return the function that runs the graph.

        It silences numpy's warnings unless all nodes are native or the surrounding run does.
        """
        if is_parallel:
            assert self._threads is not None
            return ParallelExecutor(plan, self._threads, parallel_threads(self._options))
        execute: Execute = AsyncExecutor(plan) if _overlaps(plan) else execute_sequentially
        if graph.parent is not None or all(map(self._is_native, graph.nodes)):
            return execute
        return partial(_execute_silently, execute)

    def _is_native(self, node: Node) -> bool:
        fused = self._fused.get(node)
        return fused is not None and self._by_name[fused.provider].computes_natively

    def _is_own_native(self, node: Node) -> bool:
        return self._is_native(node) and not self._fused[node].is_foreign

    def _computes(self, graph: Graph, plan: ExecutionPlan, *, is_parallel: bool) -> list[Compute]:
        """Return the compute function of each step.

        Asynchronous ones wait if nothing can be done meanwhile.
        """
        computes = [self._compute(graph, graph.node(step.node_index), step) for step in plan.steps]
        if _overlaps(plan) and not is_parallel:
            return computes
        return [
            waiting(compute) if step.kernel.is_async else compute
            for compute, step in zip(computes, plan.steps, strict=True)
        ]

    def _workspace_pool(
        self, allocation: AllocationPlan, patterns: MemoryPatternGroup | None
    ) -> WorkspacePool | None:
        """Return the blocks that runs take; None if no value lies in one.

        ``patterns``: the layout of the values in their block, if all shapes are static.
        """
        if patterns is not None and not patterns.peak_size:
            return None
        pool = WorkspacePool(
            allocation, self._memories.allocate, keeps_blocks=self._options.enable_cpu_mem_arena
        )
        if patterns is not None:
            pool.add(STATIC_CLASS, patterns)
        return pool

    def _compute(self, graph: Graph, node: Node, step: NodeStep) -> Compute:
        """Return the node's compute function; a fused node's state is released with the session."""
        poll_load()
        fused = self._fused.get(node)
        if is_copy(node):
            compute = copy_compute(node, self._memories.device_allocator(step.device))
        elif fused is None:
            info = None if self._info_of is None else self._info_of(graph, node)
            foreign = self._foreign.get(node.execution_provider)
            if foreign is None:
                compute = make_compute(graph, node, step.kernel, info)
            else:
                compute = make_compute(graph, node, guarded_kernel(step.kernel, foreign), info)
                compute = checked_kernel(compute, graph, node, foreign.name)
        else:
            provider = self._by_name[fused.provider]
            with guard(provider, f"prepare partition {node.name}"):
                state = fused.compute_info.create_state(node.name)
            self.releases.append(
                partial(end_quietly, provider, partial(fused.compute_info.release_state, state))
            )
            is_strict = self._options.config_entries.get(STRICT_FUSED_NODES_ENTRY) == "1"
            compute = fused_compute(fused, state, is_strict=is_strict)
        return compute if self._profiler is None else self._profiler.profiled(compute, step)


def _execute_silently(
    execute: Execute, instructions: Sequence[Instruction], frame: ExecutionFrame
) -> None:
    # In its own context: an interrupt at the end of errstate would leave the setting behind.
    copy_context().run(_execute_in_context, execute, instructions, frame)


def _execute_in_context(
    execute: Execute, instructions: Sequence[Instruction], frame: ExecutionFrame
) -> None:
    with np.errstate(all="ignore"):
        execute(instructions, frame)


def _overlaps(plan: ExecutionPlan) -> bool:
    """Return True if a node can be under way while another runs."""
    return len(plan.steps) > 1 and any(step.kernel.is_async for step in plan.steps)


def _mapped_files(graph: Graph) -> list[MappedFile]:
    """Return the files that weights are mapped from, each once."""
    files: dict[int, MappedFile] = {}
    for current in all_graphs(graph):
        for initializer in current.initializers.values():
            source = getattr(initializer, "source", None)
            if isinstance(source, MappedFile):
                files[id(source)] = source
    return list(files.values())


def parallel_threads(options: SessionOptions) -> int:
    """Return the number of nodes that may run at the same time in parallel execution."""
    return options.inter_op_num_threads or usable_cores()
