"""A compiling provider whose SDK, driver and device a test chooses: it runs on onnx.reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from ortpkg.graph.graph import Node
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.compiling_provider import CompilingProvider
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, FusedNode, GraphViewer
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_state import SessionState, create_session_state

NAME = "FakeExecutionProvider"
ENVIRONMENT = ContextDescriptor(
    ep=NAME,
    sdk_version="1.0",
    driver_version="7",
    device="NPU",
    architecture="npu-3",
    options={"mode": "fast"},
)


class _Compiled:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self._evaluator = ReferenceEvaluator(onnx.load_from_string(data))

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        del context
        return list(
            self._evaluator.run(None, dict(zip(self._evaluator.input_names, inputs, strict=True)))
        )


class FakeCompiler(CompilingProvider):
    """Takes the operators it is told to.

    Attributes:
        compiled, imported: names of the partitions, in order.
    """

    def __init__(
        self,
        operators: Collection[str] = ("Exp", "MatMul"),
        *,
        name: str = NAME,
        sources: tuple[str, ...] = (),
        environment: ContextDescriptor = ENVIRONMENT,
        on_import: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name)
        self.context_sources = sources or (name,)
        self.operators = frozenset(operators)
        self.environment = replace(environment, ep=name)
        self.compiled: list[str] = []
        self.imported: list[str] = []
        self.on_import = on_import

    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        del types_of
        return [node.index for node in viewer.nodes if node.op_type in self.operators]

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        self.compiled.append(fused.node.name)
        return _Compiled(to_model_proto(Model(graph=fused.body, ir_version=10)).SerializeToString())

    def describe_environment(self) -> ContextDescriptor:
        return self.environment

    def export_context(self, compiled: CompiledPartition, fused: FusedNode) -> Mapping[str, Part]:
        assert isinstance(compiled, _Compiled)
        weights = {
            f"weight:{name}": fused.body.initializers[name].numpy().tobytes()
            for name in fused.body.initializers
        }
        return {"graph": compiled.data, **weights}

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        del fused
        self.on_import()
        self.imported.append(entry.name)
        return _Compiled(bytes(entry.parts["graph"]))


def state_of(
    source: str | os.PathLike[str] | bytes, *providers: ExecutionProvider, **entries: str
) -> SessionState:
    """A session state on the providers and the CPU.

    ``ep_context_enable="1"`` sets ``ep.context_enable``.
    """
    options = SessionOptions()
    for key, value in entries.items():
        head, _, rest = key.partition("_")
        options.add_session_config_entry(f"{head}.{rest}", value)
    folder = options.config_entries.get("session.model_external_initializers_file_folder_path")
    model = load_model(source, external_data_folder=folder)
    return create_session_state(model, options, [*providers, CPUExecutionProvider()])


def run(state: SessionState, *feeds: Any) -> list[Any]:
    """Outputs of one run."""
    return state.executable.run(feeds, (), RunControl())
