"""The stages of start-up, in order: from a model file to planned graphs that are ready to run.

load → infer → transform (level 1) → partition among providers → dump the context model, if asked → transform (higher
levels, correctness) → execution plan → allocation plan → memory pattern → verify. Sub-graphs (If, Loop, Scan) are
planned before the graph around them is put together (requirements P04, P05, M20).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ortpkg.engine.allocation_planner import AllocationPlan
from ortpkg.engine.constant_evaluator import ConstantEvaluator
from ortpkg.engine.ep_context_model import dump_ep_context_model
from ortpkg.engine.executable_graph import STATIC_SIGNATURE, ExecutableGraph, Execute, Subgraph
from ortpkg.engine.execution_plan import ExecutionPlan, NodeStep, OrtDevice, create_execution_plan
from ortpkg.engine.fused_kernel import FusedKernel, fused_compute
from ortpkg.engine.graph_partitioner import (
    Partition,
    PartitionResult,
    find_kernels,
    partition_graph,
)
from ortpkg.engine.memory_pattern import needs_run_trace, trace_static_shapes
from ortpkg.engine.memory_planning import plan_memory
from ortpkg.engine.parallel_executor import ParallelExecutor
from ortpkg.engine.plan_verifier import verify_plan
from ortpkg.engine.profiler import Profiler
from ortpkg.engine.run_gate import RunGate
from ortpkg.engine.sequential_executor import execute_sequentially
from ortpkg.engine.transformers import TransformContext, TransformLevel, apply_transformers
from ortpkg.engine.value_sizes import value_sizes
from ortpkg.engine.workspace import WorkspacePool
from ortpkg.errors import InvalidSessionOptionError, SessionError, quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.inference_guards import all_graphs
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import save_model
from ortpkg.graph.shape_inference import infer_types, types_are_known
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.kernels.op_kernel import Compute
from ortpkg.kernels.op_kernel_info import make_compute
from ortpkg.providers.cpu_execution_provider import CPU_EXECUTION_PROVIDER
from ortpkg.providers.ep_context_options import (
    CONTEXT_ENABLE,
    SHARE_EP_CONTEXTS,
    EpContextOptions,
    ep_context_options,
)
from ortpkg.providers.ep_context_workspace import abandon_groups
from ortpkg.providers.execution_provider import Allocator, ExecutionProvider, GraphViewer
from ortpkg.session.options import (
    DISABLE_CPU_FALLBACK_ENTRY,
    STRICT_FUSED_NODES_ENTRY,
    VERIFY_PLAN_ENTRY,
    ExecutionMode,
    SessionOptions,
)

_MOST_FOLDED_NBYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session that is ready to run.

    Attributes:
        model: as transformed.
        partitions: which provider runs what.
        executable: the planned main graph.
        threads: of parallel execution; None where it is sequential.
        releases: what to call when the session closes, in order.
    """

    model: Model
    partitions: tuple[Partition, ...]
    executable: ExecutableGraph
    threads: ThreadPoolExecutor | None = None
    releases: tuple[Callable[[], None], ...] = ()

    def close(self) -> None:
        """Waits for runs under way, then releases what compiled partitions hold, and ends the threads."""
        if self.executable.gate is not None:
            self.executable.gate.close()
        for release in self.releases:
            release()
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
        if self.executable.pool is not None:
            self.executable.pool.clear()


def create_session_state(
    model: Model,
    options: SessionOptions,
    providers: Sequence[ExecutionProvider],
    profiler: Profiler | None = None,
    *,
    explains_cache: bool = False,
) -> SessionState:
    """Takes ``model`` (which it changes) through all stages.

    ``explains_cache``: compiles nothing; providers note what the cache of contexts has, and the state cannot run.

    Raises:
        InvalidGraphError, KernelNotFoundError, CompileError: the model or a provider does not allow a session.
        PlanVerificationError: a plan is unsafe (only checked where the config entry ``ortpkg.verify_plan`` asks).
    """
    override_free_dimensions(model.graph, options.free_dimension_overrides)
    try:
        ep_context = ep_context_options(options.config_entries, model.path)
    except SessionError as error:
        abandon_generating_groups(options, [provider.name for provider in providers], error)
        raise
    if explains_cache:
        ep_context = replace(ep_context, enable=False, only_explains_cache=True)
    for provider in providers:
        provider.ep_context = ep_context
    if not ep_context.enable:
        return _create(model, options, providers, profiler, ep_context)
    try:
        for provider in providers:
            provider.check_ep_contexts()
        return _create(model, options, providers, profiler, ep_context)
    except BaseException as error:
        for provider in providers:
            provider.abandon_ep_contexts(error)
        raise


def abandon_generating_groups(options: SessionOptions, ep_names: Iterable[str], reason: BaseException) -> None:
    """A session with ``options`` failed: gives up the groups that it belongs to, if it was to make a context model."""
    if options.config_entries.get(CONTEXT_ENABLE) == options.config_entries.get(SHARE_EP_CONTEXTS) == "1":
        abandon_groups(ep_names, reason)


def _create(
    model: Model,
    options: SessionOptions,
    providers: Sequence[ExecutionProvider],
    profiler: Profiler | None,
    ep_context: EpContextOptions,
) -> SessionState:
    infer_types(model)
    _transform(model, (TransformLevel.BASIC,), options, _transform_context(providers))
    result = partition_graph(model.graph, providers)
    _check_cpu_fallback(result, options)
    if ep_context.enable:
        dump_ep_context_model(model, result.fused, providers, ep_context)
    later = (TransformLevel.EXTENDED, TransformLevel.LAYOUT, TransformLevel.DEFAULT)
    _transform(model, later, options, _transform_context(providers, only=frozenset({CPU_EXECUTION_PROVIDER})))
    _write_optimized_model(model, options, result)
    threads = _thread_pool(options)
    planner = _GraphPlanner(options, providers, result.fused, profiler, threads)
    executable = planner.plan(model.graph)
    return SessionState(
        model=model,
        partitions=result.partitions,
        executable=executable,
        threads=threads,
        releases=tuple(planner.releases),
    )


def _transform(
    model: Model, levels: Sequence[TransformLevel], options: SessionOptions, context: TransformContext
) -> None:
    """Applies those of ``levels`` that the options ask for, and the default level whatever they say (P17)."""
    wanted = [level for level in levels if level is TransformLevel.DEFAULT or level <= options.graph_optimization_level]
    changes = sum(apply_transformers(model, level, context) for level in wanted)
    # Folded constants are shapes that inference may follow; fusions say what they make.
    if changes and not types_are_known(model, with_sizes=TransformLevel.BASIC in wanted):
        infer_types(model)


def _transform_context(providers: Sequence[ExecutionProvider], only: frozenset[str] | None = None) -> TransformContext:
    """What transformers may ask of ``providers``; with ``only``, they leave the nodes of other providers alone."""

    def kernel_exists(node: Node, types: Mapping[str, ElementType]) -> bool:
        return any(
            provider.kernel_registry.try_find_kernel(node, types) is not None
            for provider in providers
            if provider.kernel_registry is not None and node.execution_provider in {"", provider.name}
        )

    return TransformContext(
        evaluate=ConstantEvaluator(providers, memory_limit_nbytes=_MOST_FOLDED_NBYTES),
        kernel_exists=kernel_exists,
        execution_providers=only,
        largest_constant_nbytes=_MOST_FOLDED_NBYTES,
    )


def _check_cpu_fallback(result: PartitionResult, options: SessionOptions) -> None:
    """Raises where the embedded CPU provider runs nodes although the options forbid it (ONNX Runtime's entry)."""
    if options.config_entries.get(DISABLE_CPU_FALLBACK_ENTRY) != "1":
        return
    left = [p for p in result.partitions if p.provider == CPU_EXECUTION_PROVIDER and not p.fused_node]
    if left:
        names = ", ".join(quoted(name) for name in left[0].node_names[:5])
        count = sum(len(partition.node_names) for partition in left)
        raise InvalidSessionOptionError(
            f"{DISABLE_CPU_FALLBACK_ENTRY} is set, but {count} nodes would run on the CPU provider: {names}, ...",
            key=DISABLE_CPU_FALLBACK_ENTRY,
        )


def _write_optimized_model(model: Model, options: SessionOptions, result: PartitionResult) -> None:
    if not options.optimized_model_filepath:
        return
    if result.fused:
        raise InvalidSessionOptionError(
            "optimized_model_filepath: the model has compiled partitions, which ONNX cannot hold; "
            "see the ep.context_enable entry for models with compiled contexts",
            key="optimized_model_filepath",
        )
    save_model(model, options.optimized_model_filepath)


def override_free_dimensions(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Gives symbolic dimensions the sizes that the options fix, in ``graph`` and all graphs inside it."""
    if not sizes:
        return
    for name, value_type in list(graph.types.items()):
        if isinstance(value_type, TensorType) and value_type.shape is not None:
            shape = tuple(
                sizes.get(dimension, dimension) if isinstance(dimension, str) else dimension
                for dimension in value_type.shape
            )
            graph.set_type(name, TensorType(value_type.element_type, shape))
    for node in graph.nodes:
        for subgraph in node.subgraphs.values():
            override_free_dimensions(subgraph, sizes)


def _mapped_files(graph: Graph) -> list[MappedFile]:
    """The files that weights are mapped from, each once."""
    found: dict[int, MappedFile] = {}
    for current in all_graphs(graph):
        for initializer in current.initializers.values():
            source = getattr(initializer, "source", None)
            if isinstance(source, MappedFile):
                found[id(source)] = source
    return list(found.values())


def _thread_pool(options: SessionOptions) -> ThreadPoolExecutor | None:
    if options.execution_mode is not ExecutionMode.ORT_PARALLEL:
        return None
    return ThreadPoolExecutor(_parallel_threads(options), thread_name_prefix="ortpkg-inter-op")


def _parallel_threads(options: SessionOptions) -> int:
    return options.inter_op_num_threads or os.cpu_count() or 1


class _GraphPlanner:
    """Plans a partitioned graph and, before it, the sub-graphs of its nodes.

    Attributes:
        releases: what frees the states of compiled partitions, in order of creation.
    """

    def __init__(
        self,
        options: SessionOptions,
        providers: Sequence[ExecutionProvider],
        fused: Mapping[Node, FusedKernel],
        profiler: Profiler | None,
        threads: ThreadPoolExecutor | None,
    ) -> None:
        self._options = options
        self._providers = providers
        self._fused = fused
        self._profiler = profiler
        self._threads = threads
        self._allocators = {provider.name: provider.create_allocator() for provider in providers}
        self._devices = {name: OrtDevice(a.name, a.alignment) for name, a in self._allocators.items()}
        self._allocator_of: dict[OrtDevice, Allocator] = {
            self._devices[name]: allocator for name, allocator in self._allocators.items()
        }
        self.releases: list[Callable[[], None]] = []

    def plan(self, graph: Graph) -> ExecutableGraph:
        """Execution plan, allocation plan, memory pattern, verified if asked for; then kernels and weights."""
        subgraphs = {
            (node.index, attribute): self.plan(subgraph)
            for node in graph.nodes
            if node not in self._fused
            for attribute, subgraph in node.subgraphs.items()
        }
        is_parallel = self._threads is not None and graph.parent is None
        kernels = find_kernels(graph, self._providers, self._fused)
        plan = create_execution_plan(GraphViewer(graph, topological_order(graph)), self._devices, kernels)
        allocation = plan_memory(
            plan,
            value_sizes(graph, plan),
            enable_reuse=self._options.enable_mem_reuse,
            parallel=is_parallel,
            has_pattern=self._options.enable_mem_pattern,
        )
        patterns = trace_static_shapes(plan, allocation).generate_patterns()
        if self._options.config_entries.get(VERIFY_PLAN_ENTRY) == "1":
            verify_plan(plan, allocation, patterns)
        traces_runs = graph.parent is None and needs_run_trace(allocation)
        pool = None
        if self._options.enable_mem_pattern and not is_parallel and (traces_runs or patterns.peak_size):
            pool = self._workspace_pool(allocation)
            if not traces_runs:
                pool.add_pattern(STATIC_SIGNATURE, patterns)
        return ExecutableGraph(
            plan=plan,
            allocation=allocation,
            computes=[self._compute(graph, graph.node(step.node_index), step) for step in plan.steps],
            constants={plan.values.index_of(name): value.numpy() for name, value in graph.initializers.items()},
            subgraphs={
                key: Subgraph(executable, self._captures(plan, executable)) for key, executable in subgraphs.items()
            },
            execute=self._executor(plan) if is_parallel else execute_sequentially,
            pool=pool,
            traces_runs=traces_runs,
            gate=RunGate(_mapped_files(graph)) if graph.parent is None else None,
        )

    @staticmethod
    def _captures(plan: ExecutionPlan, subgraph: ExecutableGraph) -> tuple[int, ...]:
        """Where a sub-graph finds its outer values among those of the graph around it."""
        names = (subgraph.plan.values.name_of(index) for index in subgraph.plan.outer_values)
        return tuple(plan.values.index_of(name) for name in names)

    def _executor(self, plan: ExecutionPlan) -> Execute:
        assert self._threads is not None
        return ParallelExecutor(plan, self._threads, _parallel_threads(self._options))

    def _workspace_pool(self, allocation: AllocationPlan) -> WorkspacePool:
        return WorkspacePool(allocation, self._allocate_block, keeps_blocks=self._options.enable_cpu_mem_arena)

    def _allocate_block(self, device: OrtDevice, nbytes: int) -> npt.NDArray[np.uint8]:
        return self._allocator_of[device].allocate(nbytes)

    def _compute(self, graph: Graph, node: Node, step: NodeStep) -> Compute:
        """The node's compute function; for a fused node, with a state that is released when the session closes."""
        fused = self._fused.get(node)
        if fused is None:
            compute = make_compute(graph, node, step.kernel)
        else:
            state = fused.compute_info.create_state(node.name)
            self.releases.append(partial(fused.compute_info.release_state, state))
            is_strict = self._options.config_entries.get(STRICT_FUSED_NODES_ENTRY) == "1"
            compute = fused_compute(fused, state, is_strict=is_strict)
        return compute if self._profiler is None else self._profiler.profiled(compute, step)
