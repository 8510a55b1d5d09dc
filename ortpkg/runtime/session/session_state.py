"""Stages of creating a session, in order: from a model file to planned graphs, ready to run.

load → infer → transform (level 1) → partition among providers → write the context model, if asked →
transform (higher levels, correctness) → copies between memories → execution plan → allocation plan
→ memory pattern → verify. Sub-graphs (If, Loop, Scan) are planned before the graph that contains
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    ModelFileError,
    SessionError,
    printable,
    quoted,
)
from ortpkg.graph.attribute_checks import verify_fits
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import save_model
from ortpkg.graph.shapes.inference import dimension_names, infer_types
from ortpkg.graph.type_checks import verify_types
from ortpkg.runtime.engine.ep_context_model import dump_ep_context_model
from ortpkg.runtime.engine.executable_graph import ExecutableGraph
from ortpkg.runtime.engine.graph_partitioner import partition_graph
from ortpkg.runtime.engine.helper_threads import HelperThreads
from ortpkg.runtime.engine.partition import Partition, PartitionResult
from ortpkg.runtime.engine.partition_policy import CostPolicy, PartitionChoice
from ortpkg.runtime.engine.profiler import Profiler
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.transformers import TransformLevel
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_ENABLE,
    SHARE_EP_CONTEXTS,
    EpContextOptions,
    ep_context_options,
)
from ortpkg.runtime.ep_context.ep_context_workspace import abandon_groups
from ortpkg.runtime.ep_context.mapped_context import MappedContext
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.providers.cpu_execution_provider import CPU_EXECUTION_PROVIDER
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.session.added_transformers import NO_TRANSFORMERS, AddedTransformers
from ortpkg.runtime.session.free_dimensions import override_free_dimensions
from ortpkg.runtime.session.graph_planner import GraphPlanner, parallel_threads
from ortpkg.runtime.session.lent_engine import SessionGraphEngine
from ortpkg.runtime.session.named_providers import verify_named_claim, verify_named_run
from ortpkg.runtime.session.native_settings import native_settings
from ortpkg.runtime.session.options import (
    DISABLE_CPU_FALLBACK_ENTRY,
    ExecutionMode,
    SessionOptions,
)
from ortpkg.runtime.session.partition_entries import partition_costs
from ortpkg.runtime.session.provider_settings import join
from ortpkg.runtime.session.transformation import LATER_LEVELS, transform, transform_context

#: Called with the partitioned model, the result of partitioning, and the names of dimensions that
#: the source declares.
OnPartitioned = Callable[[Model, PartitionResult, tuple[str, ...]], None]

#: Config entries of ONNX Runtime: the file beside the optimized model for large initializers, and
#: their least size in bytes.
_OPTIMIZED_DATA_ENTRY = "session.optimized_model_external_initializers_file_name"
_OPTIMIZED_DATA_SIZE_ENTRY = "session.optimized_model_external_initializers_min_size_in_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session that is ready to run.

    Attributes:
        model: the model as transformed.
        partitions: partitions with their providers.
        executable: the planned main graph.
        symbolic_dimensions: names of the model's symbolic dimensions, including those that the
            options fix.
        choices: per graph, the results of both partitioning policies, if cost decides.
        threads: threads of parallel execution; None for sequential execution.
        releases: functions to call when the session closes, in order.
    """

    model: Model
    partitions: tuple[Partition, ...]
    executable: ExecutableGraph
    symbolic_dimensions: tuple[str, ...]
    choices: tuple[PartitionChoice, ...] = ()
    threads: HelperThreads | None = None
    releases: tuple[Callable[[], None], ...] = ()

    def run(
        self,
        feeds: Sequence[Value],
        control: RunControl,
        positions: Sequence[int] | None = None,
        targets: Mapping[int, Any] | None = None,
    ) -> list[Value]:
        """Run the model once; see :meth:`ExecutableGraph.run`.

        Args:
            feeds: values of the inputs.
            control: limits of the run.
            positions: positions of the outputs to return; None for all.
            targets: position of an output → memory in which it is wanted.
        """
        outputs = self.executable.plan.outputs
        return self.executable.run(
            feeds,
            (),
            control,
            None if positions is None else [outputs[at] for at in positions],
            None if targets is None else {outputs[at]: targets[at] for at in targets},
        )

    def is_inside(self) -> bool:
        """Return True if the calling thread is in a run, as a signal handler may be."""
        return self.executable.gate is not None and self.executable.gate.is_inside()

    def close(self) -> None:
        """Wait for runs under way, releases compiled partitions, and ends the threads."""
        if self.executable.gate is not None:
            self.executable.gate.close()
        for release in self.releases:
            release()
        if self.threads is not None:
            self.threads.shut_down()
        if self.executable.pool is not None:
            self.executable.pool.clear()


def create_session_state(
    model: Model,
    options: SessionOptions,
    providers: Sequence[ExecutionProvider],
    profiler: Profiler | None = None,
    *,
    explains_cache: bool = False,
    judged_contexts: Mapping[Path, MappedContext] | None = None,
    transformers: AddedTransformers = NO_TRANSFORMERS,
    only_contexts: bool = False,
    on_partitioned: OnPartitioned | None = None,
    allows_fallback: bool = False,
) -> SessionState:
    """Take ``model`` (which is changed) through all stages.

    Args:
        model: the model; transformed in place.
        options: options of the session.
        providers: execution providers in order of priority.
        profiler: profiler of the session, if it profiles.
        explains_cache: True to compile nothing; providers note what the context cache has, and the
            state cannot run.
        judged_contexts: the only context files to load, as they were opened when they were checked;
            None for all that the model names.
        transformers: transformers of the caller, by level, after the built-in ones of that level.
        only_contexts: True if the model was partitioned before: nodes outside of contexts are the
            CPU's.
        on_partitioned: called with the partitioned model before it is prepared for our own kernels.
        allows_fallback: True if others may run the model when the named providers take no node.

    Raises:
        InvalidGraphError, KernelNotFoundError, CompileError: the model or a provider does not allow
            a session.
        PlanVerificationError: a plan is unsafe (only checked with the config entry
            ``ortpkg.verify_plan``).
    """
    try:
        ep_context = ep_context_options(options.config_entries, model.path)
    except SessionError as error:
        abandon_generating_groups(options, [provider.name for provider in providers], error)
        raise
    if explains_cache:
        ep_context = replace(ep_context, enable=False, only_explains_cache=True)
    ep_context = replace(
        ep_context,
        judged=judged_contexts,
        only_contexts=only_contexts,
        wait_limit_s=options.timeout_s,
        check_cancelled=options.check_not_cancelled,
        # Contexts that were checked are loaded as they were checked.
        read_data=options.context_data_functions.reader if judged_contexts is None else None,
        write_data=options.context_data_functions.writer,
    )
    engine = SessionGraphEngine(options)
    settings = native_settings(options)
    for provider in dict.fromkeys(providers):
        join(provider, settings, ep_context, engine)

    def create(on_partitioned: OnPartitioned | None = None) -> SessionState:
        return _create(
            model,
            options,
            providers,
            profiler,
            ep_context,
            transformers,
            on_partitioned,
            allows_fallback=allows_fallback or explains_cache or only_contexts,
        )

    if not ep_context.enable:
        state = create(on_partitioned)
        if not explains_cache:
            verify_named_run(state.partitions, providers, allowed=allows_fallback)
        return state
    try:
        for provider in providers:
            provider.check_ep_contexts()
        return create()
    except BaseException as error:
        for provider in providers:
            provider.abandon_ep_contexts(error)
        raise


def abandon_generating_groups(
    options: SessionOptions, ep_names: Iterable[str], reason: BaseException
) -> None:
    """Abandon the groups of a session that failed while it made a context model."""
    if (
        options.config_entries.get(CONTEXT_ENABLE)
        == options.config_entries.get(SHARE_EP_CONTEXTS)
        == "1"
    ):
        abandon_groups(ep_names, reason)


def _create(
    model: Model,
    options: SessionOptions,
    providers: Sequence[ExecutionProvider],
    profiler: Profiler | None,
    ep_context: EpContextOptions,
    added: AddedTransformers,
    on_partitioned: OnPartitioned | None = None,
    *,
    allows_fallback: bool,
) -> SessionState:
    symbolic_dimensions = tuple(dimension_names(model.graph))
    override_free_dimensions(
        model.graph, options.free_dimension_overrides, options.free_denotation_overrides
    )
    infer_types(model)
    verify_types(model.graph)
    verify_fits(model.graph)
    transform(
        model,
        (TransformLevel.BASIC,),
        options.graph_optimization_level,
        transform_context(providers),
        added,
    )
    options.check_not_cancelled()
    costs = partition_costs(options.config_entries)
    policy = None if costs is None else CostPolicy(model.graph, providers, costs)
    result = partition_graph(model.graph, providers, policy=policy)
    _check_cpu_fallback(result, options, providers)
    if policy is None:  # otherwise costs decide, as the caller wants it
        verify_named_claim(result.partitions, providers, allowed=allows_fallback)
    if on_partitioned is not None:
        on_partitioned(model, result, symbolic_dimensions)
    if ep_context.enable:
        dump_ep_context_model(model, result.fused, providers, ep_context)
    for_cpu = transform_context(providers, only=frozenset({CPU_EXECUTION_PROVIDER}))
    for_cpu = replace(for_cpu, only_portable=bool(options.optimized_model_filepath))
    transform(model, LATER_LEVELS, options.graph_optimization_level, for_cpu, added)
    options.check_not_cancelled()
    _write_optimized_model(model, options, result)
    threads = _thread_pool(options)
    planner = GraphPlanner(options, providers, result.fused, profiler, threads)
    executable = planner.plan(model.graph)
    return SessionState(
        model=model,
        partitions=result.partitions,
        executable=executable,
        symbolic_dimensions=symbolic_dimensions,
        choices=result.choices,
        threads=threads,
        releases=tuple(planner.releases),
    )


def _check_cpu_fallback(
    result: PartitionResult, options: SessionOptions, providers: Sequence[ExecutionProvider]
) -> None:
    """Raise an error if the CPU provider runs nodes although an option forbids it."""
    if options.config_entries.get(DISABLE_CPU_FALLBACK_ENTRY) != "1":
        return
    on_cpu = [
        p for p in result.partitions if p.provider == CPU_EXECUTION_PROVIDER and not p.fused_node
    ]
    if on_cpu:
        names = ", ".join(quoted(name) for name in on_cpu[0].node_names[:5])
        count = sum(len(partition.node_names) for partition in on_cpu)
        refusals = "".join(
            f"; {provider.name}: {refusal}"
            for provider in providers
            if (refusal := provider.get_refusal())
        )
        raise InvalidSessionOptionError(
            f"{DISABLE_CPU_FALLBACK_ENTRY} is set, but {count} nodes would run on the CPU provider:"
            f" {names}, ...{refusals}",
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
    data_name = options.config_entries.get(_OPTIMIZED_DATA_ENTRY)
    size = options.config_entries.get(_OPTIMIZED_DATA_SIZE_ENTRY) or "1024"
    if not (size.isascii() and size.isdigit()):
        raise InvalidSessionOptionError(
            f"{_OPTIMIZED_DATA_SIZE_ENTRY} is a number of bytes, not {quoted(size)}",
            key=_OPTIMIZED_DATA_SIZE_ENTRY,
        )
    path = options.optimized_model_filepath
    try:
        save_model(model, path, external_data=data_name or None, smallest_external_nbytes=int(size))
    except (ModelFileError, ValueError) as error:
        raise InvalidSessionOptionError(
            f"optimized_model_filepath: {printable(error)}", key="optimized_model_filepath"
        ) from error


def _thread_pool(options: SessionOptions) -> HelperThreads | None:
    if options.execution_mode is not ExecutionMode.ORT_PARALLEL:
        return None
    return HelperThreads(parallel_threads(options), "ortpkg-inter-op")
