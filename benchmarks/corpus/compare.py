"""Runs the corpus, or any folder of models with inputs beside them, and says what cuts models.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.corpus.compare DIRECTORY
        [NAME ...] [--providers default llvm,cpu cpu] [--nodes] [--no-times] [--json FILE]

For each list of providers: how many compiled partitions there are, how many nodes are outside of
them, the largest error against onnxruntime's outputs, and the least time as a multiple of
onnxruntime's least on as many threads, in turns in one process. ``default`` is what a session gets
unasked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.chosen_models import add_arguments, chosen_models
from benchmarks.paired import time_in_turns
from benchmarks.zoo.compare import feeds_of, largest_error, open_theirs

_THREADS = 2
_MOST_REASONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Division of a model among providers.

    Attributes:
        partitions: provider → fused nodes.
        nodes: provider → nodes that it runs, those in fused ones too.
        reasons: what was left, by operator and reason → nodes.
    """

    partitions: Mapping[str, int]
    nodes: Mapping[str, int]
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Results of one model with one list of providers: error, start in seconds, time ratio."""

    division: Division
    error: float
    start_s: float
    ratio: float | None = None


def open_ours(path: Path, providers: str) -> Any:
    import ortpkg

    options = ortpkg.SessionOptions()
    options.intra_op_num_threads = _THREADS
    chosen = None if providers == "default" else providers.split(",")
    return ortpkg.InferenceSession(path, options, providers=chosen)


def division_of(session: Any) -> Division:
    """Reads a session's placement."""
    partitions: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for partition in session.get_plan().partitions:
        nodes[partition.provider] += len(partition.node_names)
        partitions[partition.provider] += bool(partition.fused_node)
        for name, op_type in zip(partition.node_names, partition.op_types, strict=True):
            for provider, reason in partition.refusals.get(name, {}).items():
                reasons[f"{provider.removesuffix('ExecutionProvider')} {op_type}: {reason}"] += 1
    return Division(partitions=dict(partitions), nodes=dict(nodes), reasons=dict(reasons))


def compare(path: Path, lists: Sequence[str], budget_s: float | None) -> dict[str, Figures]:
    """Return figures by list of providers; runs alternate with onnxruntime's in the same rounds."""
    feeds = feeds_of(path)
    reference = open_theirs(path, _THREADS)
    expected = reference.run(None, feeds)
    figures_by_providers: dict[str, Figures] = {}
    runs: dict[str, Callable[[], object]] = {"onnxruntime": lambda: reference.run(None, feeds)}
    for providers in lists:
        start = time.perf_counter()
        session = open_ours(path, providers)
        seconds = time.perf_counter() - start
        error = largest_error(session.run(None, feeds), expected)
        figures_by_providers[providers] = Figures(
            division=division_of(session), error=error, start_s=seconds
        )
        runs[providers] = lambda session=session: session.run(None, feeds)  # type: ignore[misc]
    if budget_s is None:
        return figures_by_providers
    timings = time_in_turns(runs, baseline="onnxruntime", budget_s=budget_s, settle_s=0.05)
    return {
        providers: Figures(**{**_fields(figures), "ratio": timings[providers].least_ratio})
        for providers, figures in figures_by_providers.items()
    }


def _fields(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in ("division", "error", "start_s", "ratio")}


def line_of(providers: str, figures: Figures) -> str:
    fused = sum(figures.division.partitions.values())
    cpu = figures.division.nodes.get("CPUExecutionProvider", 0)
    ratio = "" if figures.ratio is None else f"{figures.ratio:7.2f} x"
    return (
        f"  {providers:10} partitions {fused:3}, nodes left {cpu:4} of"
        f" {sum(figures.division.nodes.values()):4}, error {figures.error:7.1e}, start"
        f" {figures.start_s:5.2f} s{ratio}"
    )


def summary_of(figures_by_model: Mapping[str, Mapping[str, Figures]], providers: str) -> str:
    """The distribution of ratios over all models."""
    ratios = {
        name: ratio
        for name, figures in figures_by_model.items()
        if providers in figures and (ratio := figures[providers].ratio) is not None
    }
    ordered = sorted(ratios.values())
    if not ordered:
        return ""
    worst = ", ".join(
        f"{name} {ratio:.2f}"
        for name, ratio in sorted(ratios.items(), key=lambda name_and_ratio: -name_and_ratio[1])[:6]
    )
    return (
        f"{providers}: {len(ordered)} models, median {statistics.median(ordered):.2f} x, quarters"
        f" {ordered[len(ordered) // 4]:.2f} and {ordered[-1 - len(ordered) // 4]:.2f}, over 1:"
        f" {sum(ratio > 1 for ratio in ordered)}, over 2: {sum(ratio > 2 for ratio in ordered)};"
        f" worst {worst}"
    )


def main(command_line: Sequence[str] | None = None) -> int:
    """Returns 1 where a model failed."""
    parser = argparse.ArgumentParser(description="Compare the corpus with onnxruntime.")
    add_arguments(parser)
    parser.add_argument("--providers", nargs="+", default=["default", "llvm,cpu", "cpu"])
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of measuring per model")
    parser.add_argument("--nodes", action="store_true", help="why nodes are left")
    parser.add_argument("--no-times", action="store_true", help="nothing is timed")
    arguments = parser.parse_args(command_line)
    paths = chosen_models(arguments)
    figures_by_model: dict[str, dict[str, Figures]] = {}
    for path in paths:
        print(path.stem, flush=True)
        try:
            budget_s = None if arguments.no_times else arguments.budget
            figures_by_model[path.stem] = compare(path, arguments.providers, budget_s)
        except Exception as error:  # noqa: BLE001 - the next model is of interest all the same
            print(f"  {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        for providers, figures in figures_by_model[path.stem].items():
            print(line_of(providers, figures), flush=True)
            if arguments.nodes:
                for reason, count in Counter(figures.division.reasons).most_common(_MOST_REASONS):
                    print(f"    {count:4} {reason}", flush=True)
    for providers in arguments.providers:
        print(summary_of(figures_by_model, providers))
    if arguments.json is not None:
        document = {
            name: {key: asdict(figures) for key, figures in by_providers.items()}
            for name, by_providers in figures_by_model.items()
        }
        arguments.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0 if len(figures_by_model) == len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
