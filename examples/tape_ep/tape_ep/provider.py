# tape_ep/provider.py
"""The heavy side: compiles sub-graphs to a tape of instructions, and runs it with numpy."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ortpkg.api.execution_providers import (
    CompilingProvider,
    ContextDescriptor,
    ContextEntry,
    ContextMismatch,
    ElementType,
    FusedNode,
    Graph,
    GraphViewer,
    Node,
    OpKernelContext,
)
from tape_ep.factory import KIND, NAME, VERSION, is_readable


def gemm(a: Any, b: Any, c: Any = 0, *, alpha: float, beta: float, transA: int, transB: int) -> Any:
    return (
        np.float32(alpha) * ((a.T if transA else a) @ (b.T if transB else b)) + np.float32(beta) * c
    )


#: ONNX operator: what computes it, and the attributes that it takes, with their defaults.
OPERATORS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Add": (np.add, {}),
    "Sub": (np.subtract, {}),
    "Mul": (np.multiply, {}),
    "Neg": (np.negative, {}),
    "Exp": (np.exp, {}),
    "Tanh": (np.tanh, {}),
    "Relu": (lambda x: np.maximum(x, 0), {}),
    "MatMul": (np.matmul, {}),
    "Gemm": (gemm, {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
}


@dataclass(frozen=True)
class Instruction:
    operator: str
    # registers: the partition's inputs come first, then its constants, then what was computed
    inputs: list[int]
    attributes: dict[str, Any]


class Tape:
    """A compiled partition. Nothing of it changes, so any number of threads may run it."""

    def __init__(
        self,
        n_inputs: int,
        constants: Sequence[Any],
        code: Sequence[Instruction],
        outputs: Sequence[int],
    ):
        self.n_inputs, self.constants, self.code, self.outputs = n_inputs, constants, code, outputs

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        registers = [*inputs, *self.constants]
        for instruction in self.code:
            context.check_cancelled()  # so that time limits and RunOptions.terminate hold
            function, _ = OPERATORS[instruction.operator]
            values = [registers[at] for at in instruction.inputs]
            registers.append(function(*values, **instruction.attributes))
        return [registers[at] for at in self.outputs]


class TapeProvider(CompilingProvider):
    backend = "tape"
    context_sources = (NAME,)

    def supported_nodes(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> Collection[int]:
        return [node.index for node in viewer.nodes if self._is_supported(node, types_of(node))]

    def _is_supported(self, node: Node, types: Mapping[str, ElementType]) -> bool:
        is_known = not node.domain and node.op_type in OPERATORS and all(node.inputs)
        return is_known and types.get("T") is ElementType.FLOAT

    def compile_partition(self, fused: FusedNode) -> Tape:
        body: Graph = fused.body
        names = [*body.inputs, *body.initializers]
        registers = {name: at for at, name in enumerate(names)}
        code = []
        for node in fused.nodes:  # each after those that it needs
            _, defaults = OPERATORS[node.op_type]
            attributes = {key: node.attribute(key, default) for key, default in defaults.items()}
            code.append(
                Instruction(node.op_type, [registers[name] for name in node.inputs], attributes)
            )
            registers[node.outputs[0]] = len(registers)
        constants = [initializer.numpy() for initializer in body.initializers.values()]
        return Tape(len(body.inputs), constants, code, [registers[name] for name in body.outputs])

    def describe_environment(self) -> ContextDescriptor:
        return ContextDescriptor(ep=self.name, sdk_version=VERSION, device="CPU")

    def find_mismatch(
        self, recorded: ContextDescriptor, here: ContextDescriptor
    ) -> ContextMismatch | None:
        if is_readable(recorded.sdk_version):  # what the factory rates PREFER_RECOMPILATION loads
            recorded = replace(recorded, sdk_version=here.sdk_version)
        return super().find_mismatch(recorded, here)

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:
        return f"{KIND}{VERSION}"

    def export_context(self, compiled: Any, fused: FusedNode) -> Mapping[str, bytes]:
        program = {
            "n_inputs": compiled.n_inputs,
            "shapes": [constant.shape for constant in compiled.constants],
            "code": [[step.operator, step.inputs, step.attributes] for step in compiled.code],
            "outputs": compiled.outputs,
        }
        weights = {f"weight:{at}": array.tobytes() for at, array in enumerate(compiled.constants)}
        return {"program": json.dumps(program).encode(), **weights}

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> Tape:
        program = json.loads(bytes(entry.parts["program"]))
        constants = [
            np.frombuffer(entry.parts[f"weight:{at}"], np.float32, prod(shape)).reshape(shape)
            for at, shape in enumerate(program["shapes"])
        ]
        code = [Instruction(*fields) for fields in program["code"]]
        # Whoever wrote it: known operators with their attributes, and no register before it is
        # filled.
        verify(entry.arity is None or program["n_inputs"] == entry.arity[0], "it has other inputs")
        first = program["n_inputs"] + len(constants)
        for at, step in enumerate(code):
            defaults = OPERATORS[step.operator][1]
            verify(
                kinds(step.attributes) == kinds(defaults), f"{step.operator} takes other attributes"
            )
            verify(
                all(register in range(first + at) for register in step.inputs),
                f"{step.operator} reads too far",
            )
        verify(
            all(register in range(first, first + len(code)) for register in program["outputs"]),
            "no such outputs",
        )
        return Tape(program["n_inputs"], constants, code, program["outputs"])


def kinds(attributes: Mapping[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in attributes.items()}


def verify(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise ValueError(f"this is no tape: {otherwise}")
