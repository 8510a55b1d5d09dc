"""Nodes of com.microsoft, which no schema bounds: too few inputs, too many, odd attributes.

Every choice comes from the seed.
"""

from __future__ import annotations

import math
import random
from functools import cache

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from ortpkg.graph.graph import MICROSOFT_DOMAIN
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry

_MOST_INPUTS = 12
_MOST_OUTPUTS = 5
_NUMBERS = {
    "num_heads": (1, 2, 4), "kv_num_heads": (1, 2), "axis": (0, 1, -1, 9), "block_size": (16, 32), "bits": (4, 8),
    "K": (8, 16, 32), "N": (8, 16), "k": (1, 2), "ngram_size": (1, 2), "sparse_block_size": (16,), "do_rotary": (0, 1),
    "unidirectional": (0, 1), "kernel_shape": ([2], [2, 2]), "opset": (13, 99), "expert_weight_bits": (4, 8),
    "gather_axis": (0, 1), "quantize_axis": (0, 1), "transA": (0, 1), "channels_last": (0, 1),
    "local_window_size": (-1, 2), "epsilon": (1e-5,), "alpha": (0.5, 1.0), "scale": (0.5,),
    "activation_type": ("relu",), "activation": ("Relu", "Tanh", "none"),
    "qkv_hidden_sizes": ([8, 8, 8],), "mask_filter_value": (-1e4,),
}  # fmt: skip
#: Before and behind, for what looks at pairs of nodes.
_NEIGHBOURS = (
    "Add",
    "Relu",
    "Mul",
    "MatMul",
    "Identity",
    "DequantizeLinear",
    "Cast",
    "Transpose",
    "Reshape",
)
_TYPES = (TensorProto.FLOAT,) * 4 + (
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.FLOAT16,
)
_SHAPES = (
    (),
    (1,),
    (8,),
    (2, 8),
    (8, 8),
    (2, 3, 8),
    (8, 24),
    (2, 2, 3, 4),
    (0, 8),
    ("N", 8),
    ("B", "S", 8),
)


@cache
def _op_types() -> tuple[str, ...]:
    definitions = cpu_kernel_registry().definitions()
    return tuple(sorted({each.op_type for each in definitions if each.domain == MICROSOFT_DOMAIN}))


def model_of_microsoft(seed: int) -> bytes:
    """One to three nodes of com.microsoft or beside them, each of random inputs and outputs."""
    choose = random.Random(seed)
    graph = GraphProto(name="microsoft")
    values = [""]
    for number in range(choose.randint(1, 3)):
        is_neighbour = number > 0 and choose.random() < 0.5
        op_type = choose.choice(_NEIGHBOURS if is_neighbour else _op_types())
        node = NodeProto(
            op_type=op_type, domain="" if is_neighbour else MICROSOFT_DOMAIN, name=f"n{number}"
        )
        most = choose.choice((1, 2, 3, 4, _MOST_INPUTS))
        for _ in range(choose.randint(0, most)):
            is_old = choose.random() < 0.4
            node.input.append(
                choose.choice(values) if is_old else _new_value(choose, graph, values)
            )
        made = [
            f"y{number}_{slot}" for slot in range(choose.choice((0, 1, 1, 1, 2, 3, _MOST_OUTPUTS)))
        ]
        node.output.extend("" if choose.random() < 0.05 else name for name in made)
        if not is_neighbour:
            for name in sorted(_NUMBERS):
                if choose.random() < 0.5:
                    node.attribute.append(
                        helper.make_attribute(name, choose.choice(_NUMBERS[name]))
                    )
        graph.node.append(node)
        values += [name for name in node.output if name]
    outputs = [name for node in graph.node for name in node.output if name]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if choose.random() < 0.7)
    model = ModelProto(ir_version=10, graph=graph)
    model.opset_import.add(domain="", version=choose.choice((13, 18, 21)))
    model.opset_import.add(domain=MICROSOFT_DOMAIN, version=1)
    return bytes(model.SerializeToString())


def _new_value(choose: random.Random, graph: GraphProto, values: list[str]) -> str:
    name = f"v{len(graph.input) + len(graph.initializer)}"
    values.append(name)
    kind, shape = choose.choice(_TYPES), choose.choice(_SHAPES)
    sizes = [size for size in shape if isinstance(size, int)]
    if choose.random() < 0.5 and len(sizes) == len(shape):
        array = [choose.randrange(4) for _ in range(math.prod(sizes))]
        graph.initializer.append(helper.make_tensor(name, kind, sizes, array))
    elif choose.random() < 0.1:
        graph.input.append(onnx.ValueInfoProto(name=name))
    else:
        graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    return name
