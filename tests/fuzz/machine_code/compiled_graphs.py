"""Compiles random graphs with bounds checks, and holds what they give against the numpy kernels."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import onnx
import onnx.printer

from ortpkg.compiler.machine_code.cpu_targets import (
    TARGET_OPTION,
    TARGETS,
    reason_against_this_machine,
)
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import OrtpkgError
from ortpkg.runtime.providers.llvm.llvm_execution_provider import CHECK_ENTRY
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from tests.fuzz.machine_code.comparison import difference
from tests.fuzz.machine_code.graph_maker import GraphMaker, Value
from tests.fuzz.machine_code.random_graphs import random_graph
from tests.fuzz.machine_code.unfit_sizes import attack_sizes

_MOST_TEXT = 6000
#: Elements of constants, where they are many.
_ELEMENTS = re.compile(r"\{[^{}\n]{100,}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a graph.

    Attributes:
        problem: what is wrong, None where nothing is.
        compiled: the operators of its nodes, where machine code ran all of them.
    """

    problem: str | None
    compiled: Sequence[str] = ()


def attack_machine_code(seed: int) -> str | None:
    """What is wrong with the machine code of the seed's graph; None where nothing is.

    One seed of three has sizes that may not fit one another.
    """
    if seed % 3 == 0:
        return attack_sizes(seed)
    return outcome_of(seed).problem


def outcome_of(seed: int) -> Outcome:
    """Compiles the graph of a seed for a target of this machine, and runs it."""
    graph = random_graph(seed)
    outputs = graph.outputs()
    model = graph.model(outputs)
    try:
        session = _session(model, random.Random(seed))
    except OrtpkgError as error:
        return Outcome(problem=_told(f"it is not compiled: {error}", model))
    with session:
        entries = session.get_placement().entries
        is_compiled = all(each.ep_name == LLVM_EP for each in entries if each.node_count)
        problem = _problem(session, graph, outputs)
    operators = [node.op_type for node in graph.nodes] if is_compiled else []
    return Outcome(problem=problem and _told(problem, model), compiled=operators)


def _session(model: onnx.ModelProto, choose: random.Random) -> InferenceSession:
    options = SessionOptions()
    options.add_session_config_entry(CHECK_ENTRY, "1")
    options.log_severity_level = 4
    options.intra_op_num_threads = choose.choice((1, 1, 2, 3))
    if choose.random() < 0.3:
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    target = {}
    if choose.random() < 0.4:
        target = {TARGET_OPTION: choose.choice(_targets_of_this_machine())}
    return InferenceSession(
        model.SerializeToString(), options, providers=["llvm", "cpu"], provider_options=[target, {}]
    )


@cache
def _targets_of_this_machine() -> tuple[str, ...]:
    """The targets that this machine runs, its own among them."""
    return tuple(each.name for each in TARGETS if reason_against_this_machine(each) is None)


def _problem(session: InferenceSession, graph: GraphMaker, outputs: Sequence[Value]) -> str | None:
    for run in range(graph.run_count):
        try:
            made = session.run(None, graph.feeds(run))
        except OrtpkgError as error:
            return f"run {run}: {error}"
        for array, value in zip(made, outputs, strict=True):
            problem = difference(array, value, run)
            if problem is not None:
                return f"run {run}, {value.name}: {problem}"
    return None


def _told(problem: str, model: onnx.ModelProto) -> str:
    text = _ELEMENTS.sub("{...}", onnx.printer.to_text(model))
    return f"{problem}\n{text[:_MOST_TEXT]}"
