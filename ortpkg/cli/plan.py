"""``ortpkg plan``: shows how the engine would run a model: partitions, order, kernels, memory.

Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.authoring.opening import is_packed, package_folder
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.early_checks import verify_eps
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.output_files import OutputKind, OverwriteFileOption, verify_output, write_text
from ortpkg.cli.parameters import ComponentOption, EpOption, VariantOption
from ortpkg.cli.plan_costs import print_memories, print_policies
from ortpkg.cli.plan_json import plan_json
from ortpkg.cli.plan_options import (
    CostsOption,
    FixedDimensionsOption,
    IrOption,
    KernelOption,
    LevelOption,
    LinesOption,
    MemoryOption,
    ModelArgument,
    NodesOption,
    PartitionOption,
    PlanBackendOption,
    SizesOption,
    StageOption,
    SvgOption,
)
from ortpkg.cli.plan_pictures import print_memory_chart, print_partition_map
from ortpkg.cli.plan_refusals import print_refusals
from ortpkg.cli.plan_texts import (
    DEFAULT_LINES,
    keep_texts,
    print_texts,
    text_wishes,
    texts_json,
    texts_of,
)
from ortpkg.cli.quantity_arguments import named_size
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode, NoSuitableVariantError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean

if TYPE_CHECKING:
    from ortpkg.api.model_variant import ModelVariant
    from ortpkg.runtime.session.inference_session import InferenceSession
    from ortpkg.runtime.session.options import SessionOptions
    from ortpkg.runtime.session.session_plan import (
        GraphPlan,
        PlannedNode,
        PlannedValue,
        SessionPlan,
    )

#: Name of the level for each word of the option.
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_MOST_NODES_NAMED = 6


def command(
    output: Output,
    model: ModelArgument = None,
    component: ComponentOption = None,
    variant: VariantOption = None,
    ep: EpOption = None,
    backend: PlanBackendOption = None,
    level: LevelOption = "all",
    dimensions: FixedDimensionsOption = None,
    sizes: SizesOption = None,
    show_nodes: NodesOption = False,
    show_memory: MemoryOption = False,
    policy: PartitionOption = "first-come",
    costs: CostsOption = None,
    svg: SvgOption = None,
    show_ir: IrOption = False,
    stages: StageOption = None,
    kernel: KernelOption = None,
    most_lines: LinesOption = DEFAULT_LINES,
    overwrite: OverwriteFileOption = False,
    *,
    limits: LoadLimits,
) -> int:
    """Show how a model would run: which nodes on what, in which order, with how much memory.

    A letter says who runs a step, a column under it how many bytes it has in use.
    They are as wide as the terminal, and plain ASCII where they are piped.
    """
    verify_eps([ep])
    if svg is not None:
        verify_output(svg, "--svg", OutputKind.PICTURE, overwrite=overwrite)
    options = _session_options(level, dimensions or [])
    given_sizes = dict(named_size("--size", text) for text in sizes or [])
    options.memory_limit_nbytes, options.timeout_s = limits.memory_limit, limits.timeout
    _choose_policy(options, policy, costs)
    wishes = text_wishes(
        is_wished=show_ir, stages=stages or (), kernel=kernel, most_lines=most_lines
    )
    if wishes is not None:
        keep_texts(options)
    model = chosen_package(model, output)
    with (
        end_at_limits(limits, output),
        package_folder(model) if is_packed(model) else nullcontext(model) as model_root,
        _session(model_root, component, variant, ep, backend, options) as session,
    ):
        plan = session.get_plan(given_sizes)
        texts = None if wishes is None else texts_of(session, wishes)
    _verify_dimensions("--dim", options.free_dimension_overrides, plan)
    _verify_dimensions("--size", given_sizes, plan)
    _verify_are_symbolic(given_sizes, options.free_dimension_overrides)
    if svg is not None:
        _draw(plan.graph, svg, model.name, output)
    if output.is_json:
        graphs = plan.graph.with_subgraphs()
        ir_content = {} if wishes is None or texts is None else {"ir": texts_json(texts, wishes)}
        output.json("plan", {"sizes": given_sizes, **plan_json(plan, graphs), **ir_content})
        return ExitCode.DONE
    if wishes is not None and texts is not None:
        print_texts(texts, wishes, output)
        return ExitCode.DONE
    if backend is None and ep is None:
        output.note("planned by the embedded engine; --backend auto plans what run would take")
    print_policies(plan, output)
    _print_partitions(plan, output)
    print_refusals(plan.partitions, output, shows_nodes=show_nodes)
    for graph in plan.graph.with_subgraphs():
        _print_graph(graph, output, show_nodes=show_nodes, show_memory=show_memory)
    return ExitCode.DONE


def _session_options(level: str, dimensions: Sequence[str]) -> SessionOptions:
    from ortpkg.runtime.session.options import (  # with the engine, after the arguments
        GraphOptimizationLevel,
        SessionOptions,
    )

    if level not in _LEVELS:
        raise UsageError(
            f"there is no optimization level {quoted(level)}{did_you_mean(level, _LEVELS)}; "
            f"levels are {', '.join(_LEVELS)}"
        )
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel[_LEVELS[level]])
    for text in dimensions:
        options.add_free_dimension_override_by_name(*named_size("--dim", text))
    return options


def _choose_policy(options: SessionOptions, policy: str, costs: str | None) -> None:
    from ortpkg.runtime.session.partition_entries import (
        PARTITION_COSTS_ENTRY,
        PARTITION_POLICIES,
        PARTITION_POLICY_ENTRY,
    )

    if policy not in PARTITION_POLICIES:
        raise UsageError(
            f"--partition is one of {', '.join(PARTITION_POLICIES)}, not {quoted(policy)}"
        )
    options.add_session_config_entry(PARTITION_POLICY_ENTRY, policy)
    if costs is not None:
        options.add_session_config_entry(PARTITION_COSTS_ENTRY, costs)


def _verify_are_symbolic(sized: Iterable[str], fixed: Iterable[str]) -> None:
    """Raise UsageError if --size names a dimension that --dim fixes."""
    for name in sized:
        if name in set(fixed):
            raise UsageError(
                f"--size: --dim fixes {quoted(name)}, so that it has no other size; take one of"
                " the two"
            )


def _verify_dimensions(option: str, names: Iterable[str], plan: SessionPlan) -> None:
    """Raise UsageError if an option names a dimension that the model does not have."""
    dimensions = plan.symbolic_dimensions
    for name in names:
        if name not in dimensions:
            listing = (
                f"its symbolic dimensions are {', '.join(map(quoted, dimensions))}"
                if dimensions
                else "it has none"
            )
            raise UsageError(
                f"{option}: the model has no symbolic dimension"
                f" {quoted(name)}{did_you_mean(name, dimensions)}; {listing}"
            )


def _session(
    model: Path,
    component: str | None,
    variant: str | None,
    ep: str | None,
    backend: str | None,
    options: SessionOptions,
) -> InferenceSession:
    """Return a session on a model, or on the best variant of a package.

    By default the embedded engine plans it.
    """
    if model.is_dir():
        return _best_of_package(model, component, variant, ep, backend).create_session(
            options, allow_fallback=True
        )
    if backend is None:
        backend = "embedded" if ep is None else "auto"
    if component is not None or variant is not None:
        raise UsageError(
            f"{quoted(model)} is a model, not a package: it has no components or variants to choose"
            " from"
        )
    from ortpkg.foundations.ep_names import CPU_EP
    from ortpkg.runtime.providers.ep_registry import ep_known_here
    from ortpkg.runtime.session.inference_session import InferenceSession

    name = CPU_EP if ep is None else ep_known_here(ep)
    return InferenceSession(
        model,
        options,
        [name],
        backend=None if backend == "auto" else backend,
        enable_fallback=False,
        allow_fallback=True,  # the plan shows why a provider takes nothing
    )


def _best_of_package(
    root: Path, component: str | None, variant: str | None, ep: str | None, backend: str | None
) -> ModelVariant:
    """Return the best variant for the options.

    By default it is one that the embedded engine runs, if there is any.
    """
    from ortpkg.api.model_package import ModelPackage  # with the engine, after the arguments

    package = ModelPackage(root)
    if backend is None and ep is None:
        with suppress(
            NoSuitableVariantError
        ):  # all variants are for other backends, e.g. compiled for another EP
            return package.best_variant(component, variant=variant, backend="embedded")
    return package.best_variant(component, variant=variant, ep=ep, backend=backend or "auto")


def _draw(graph: GraphPlan, path: Path, title: str, output: Output) -> None:
    from ortpkg.runtime.session.memory_timeline import (
        memory_timeline_svg,  # only where a picture is asked for
    )

    write_text(path, "--svg", memory_timeline_svg(graph, f"{title}: memory pattern"))
    output.note(f"wrote {path}")


def _print_partitions(plan: SessionPlan, output: Output) -> None:
    rows = []
    for partition in plan.partitions:
        named = ", ".join(partition.node_names[:_MOST_NODES_NAMED])
        more = len(partition.node_names) - _MOST_NODES_NAMED
        rows.append(
            (
                partition.provider,
                partition.graph_path or "main graph",
                len(partition.node_names),
                f"compiled as {partition.fused_node}" if partition.fused_node else "node by node",
                f"{named}, and {more} more" if more > 0 else named,
            )
        )
    columns = [
        Column("execution provider", short=short_ep_names),
        Column("graph"),
        Column("nodes", is_numeric=True),
    ]
    columns += [Column("how", wraps=12), Column("which", wraps=24)]
    output.table(columns, rows, title="Partitions (nodes as they were before fusing)")


def _print_graph(graph: GraphPlan, output: Output, *, show_nodes: bool, show_memory: bool) -> None:
    where = f"graph {graph.path}" if graph.path else "main graph"
    kernels = ", ".join(f"{count} {kernel}" for kernel, count in graph.kernel_counts.items())
    output.line(
        f"{where}: {len(graph.nodes)} steps; kernels: {kernels or 'none'}", style="bold", hang="  "
    )
    print_partition_map(graph, output)
    output.line(_memory_summary(graph), hang="")
    print_memory_chart(graph, output)
    print_memories(graph, output)
    if show_nodes:
        columns = [Column("step", is_numeric=True), Column("operator"), Column("node", drops=2)]
        columns += [Column("provider", drops=4, short=short_ep_names), Column("kernel")]
        columns += [Column("inputs", drops=1, wraps=16), Column("outputs", drops=3, wraps=16)]
        output.table(columns, [_node_row(node) for node in graph.nodes])
    if show_memory:
        numbers = [
            Column(heading, is_numeric=True)
            for heading in ("size", "offset", "first step", "last step")
        ]
        output.table(
            [
                Column("value"),
                Column("kind", drops=3),
                *numbers,
                Column("buffer of", drops=2),
                Column("device", drops=1),
            ],
            [_value_row(value) for value in graph.values],
        )


def _memory_summary(graph: GraphPlan) -> str:
    weights = f"weights {nbytes_text(graph.weight_nbytes)}"
    if not graph.has_intermediate_values:
        text = (
            "memory pattern: empty, there are no intermediate values (feeds and outputs are not"
            f" counted); {weights}"
        )
        return (
            f"{text}; {_unknown_sizes(graph.unknown_output_count, 'output')}"
            if graph.unknown_output_count
            else text
        )
    unknown = (
        _symbolic_sizes(graph.unknown_count)
        if graph.peak_formulas
        else _unknown_sizes(graph.unknown_count, "value")
    )
    if graph.unknown_count and not graph.peak_nbytes:
        peak = f"peak at least {_formula(graph)}" if graph.peak_formulas else "peak unknown"
        return f"memory pattern: {peak}; {weights}; {unknown}"
    at_least = "at least " if graph.unknown_count else ""
    text = (
        f"memory pattern: peak {at_least}{nbytes_text(graph.peak_nbytes)},"
        f" {graph.overhead_percent:.1f} % above the least that this order needs"
        f" ({nbytes_text(graph.least_possible_nbytes)}); without sharing"
        f" {nbytes_text(graph.unshared_nbytes)}; {weights}"
    )
    if not graph.unknown_count:
        return text
    return (
        f"{text}; with these at least {_formula(graph)}; {unknown}"
        if graph.peak_formulas
        else f"{text}; {unknown}"
    )


def _formula(graph: GraphPlan) -> str:
    """Return the least possible peak as a formula of the symbolic dimensions."""
    formulas = graph.peak_formulas
    return f"{formulas[0]} bytes" if len(formulas) == 1 else f"max({', '.join(formulas)}) bytes"


def _symbolic_sizes(count: int) -> str:
    depend = "the size of 1 value depends" if count == 1 else f"the sizes of {count} values depend"
    return f"{depend} on symbolic dimensions (--size gives them sizes, --dim fixes them)"


def _unknown_sizes(count: int, what: str) -> str:
    named = f"size of 1 {what} is" if count == 1 else f"sizes of {count} {what}s are"
    return (
        f"the {named} known only in a run (--size gives symbolic dimensions sizes, --dim fixes"
        " them)"
    )


def _node_row(node: PlannedNode) -> tuple[object, ...]:
    operator = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    names = (", ".join(name or "-" for name in names) for names in (node.inputs, node.outputs))
    return (node.step, operator, node.name, node.provider, node.kernel, *names)


def _value_row(value: PlannedValue) -> tuple[object, ...]:
    return (
        value.name,
        value.kind.value,
        nbytes_text(value.nbytes) if value.nbytes is not None else value.size or "unknown",
        "" if value.offset is None else value.offset,
        value.first_step,
        "no end" if value.last_step is None else value.last_step,
        "" if value.buffer == value.name else value.buffer,
        value.device,
    )
