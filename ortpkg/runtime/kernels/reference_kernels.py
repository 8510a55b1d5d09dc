"""Kernels of the long tail: operators without a kernel of ours run on ``onnx.reference``.

:func:`find_reference_kernel` is called for a node that the registry has nothing for. Operators that
ONNX defines only as a function (of its inputs' types, for some) are evaluated by their body.
Domains: ai.onnx, ai.onnx.ml, ai.onnx.preview and ai.onnx.preview.training.

The reference implementation leaves some promises to this module: outputs never share memory with an
input, strings are objects, element types are the inferred ones, an input cannot be written to, and
attribute defaults are those of the node's own version (the reference takes the latest version's).

The reference runtime is imported only when a node needs it: it costs 60 ms.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto

from ortpkg.foundations.errors import (
    InvalidGraphError,
    KernelNotFoundError,
    LimitExceededError,
    quoted,
)
from ortpkg.foundations.isolation.polling import run_interruptibly
from ortpkg.graph.declared_values import declared_element_type
from ortpkg.graph.graph import Attribute, Node
from ortpkg.graph.operator_schemas import find_schema
from ortpkg.graph.types import (
    ElementType,
    TensorType,
    ValueType,
    element_type_of,
    numpy_dtype,
)
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.runtime.kernels.reference_corrections import (
    correct_node,
    corrected_inputs,
    corrected_outputs,
)
from ortpkg.runtime.kernels.reference_costs import COPIES, OUTPUT_ELEMENTS, USUAL_COPIES, WORK

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

#: (domain, operator) whose evaluator loops over its attributes while it is constructed.
_MADE_IN_A_RUN = frozenset({("", "TfIdfVectorizer")})
#: Operations per second, more than a CPU does in float64: no run that could end in time is refused.
_MOST_OPERATIONS_PER_S = 1e11
_WIDEST_ITEM = 8
#: Meaning of an older version, where the reference knows the newer attribute only.
_IMPLIED_ATTRIBUTES: dict[tuple[str, str, int], AttributeProto] = {
    ("", "RoiAlign", 10): onnx.helper.make_attribute(
        "coordinate_transformation_mode", "output_half_pixel"
    ),
}
REFERENCE_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
_OLDEST_IR_WITH_EVERY_TYPE = 10


def find_reference_kernel(
    node: Node, opset_imports: Mapping[str, int], types: Mapping[str, ElementType] | None = None
) -> KernelDef | None:
    """Return the kernel definition that runs ``node`` on the reference implementation.

    None if there is none, or the operator does not take the types. Types that no definition names
    are not checked before the run.

    Args:
        node: its ``since_version`` selects the operator's version; if that is 0, the imported
            version does.
        opset_imports: domain → version that the model imports.
        types: type-constraint name → element type, of those that are known.
    """
    version = node.since_version or opset_imports.get(node.domain, 0)
    if not has_reference_implementation(node.domain, node.op_type, version):
        return None
    allowed = _allowed_types(node.domain, node.op_type, version)
    if any(
        element_type not in allowed.get(name, (element_type,))
        for name, element_type in (types or {}).items()
    ):
        return None
    factory = functools.partial(_make_reference_kernel, version=version)
    return KernelDef(
        op_type=node.op_type,
        domain=node.domain,
        since=(node.since_version,),
        factory=factory,
        uses_output_buffer=False,
    )


@functools.lru_cache(maxsize=1024)
def has_reference_implementation(domain: str, op_type: str, version: int) -> bool:
    """Return True if onnx.reference computes that version, itself or by the function's body."""
    if domain not in REFERENCE_DOMAINS:
        return False
    schema = _schema(domain, op_type, version)
    if schema is None:
        return False
    if any(
        attribute.type == onnx.defs.OpSchema.AttrType.GRAPH
        for attribute in schema.attributes.values()
    ):
        # its sub-graph would escape the session's limits: these operators have kernels of ours
        return False
    loadable = _is_loadable(schema.domain, schema.name, schema.since_version)
    return loadable or _has_body_for_types(schema)


@functools.lru_cache(maxsize=1024)
def _allowed_types(domain: str, op_type: str, version: int) -> dict[str, frozenset[ElementType]]:
    """Return type-constraint name → element types that tensors, or their containers, may have."""
    schema = _schema(domain, op_type, version)
    return {
        constraint.type_param_str: frozenset(
            element_type
            for text in constraint.allowed_type_strs
            if (element_type := declared_element_type(_innermost(text))) is not None
        )
        for constraint in (schema.type_constraints if schema is not None else ())
    }


def _innermost(type_text: str) -> str:
    """ "seq(tensor(float))" → "tensor(float)"."""
    start = type_text.find("tensor(")
    return type_text[start:].rstrip(")") + ")" if start >= 0 else type_text


def _is_prepared_once(schema: onnx.defs.OpSchema) -> bool:
    """Return True if its evaluator is made with the session: it is quick, and needs no input."""
    is_slow = (schema.domain, schema.name) in _MADE_IN_A_RUN
    return not is_slow and _is_loadable(schema.domain, schema.name, schema.since_version)


def _schema(domain: str, op_type: str, version: int) -> onnx.defs.OpSchema | None:
    return find_schema(domain, op_type, version)


def _has_body_for_types(schema: onnx.defs.OpSchema) -> bool:
    """Return True if the operator is a function whose body depends on the types of its inputs."""
    # The stubs of onnx leave out what its extension module has.
    return bool(getattr(schema, "has_context_dependent_function", False))


@functools.lru_cache(maxsize=1024)
def _is_loadable(domain: str, op_type: str, version: int) -> bool:
    """Return True if the reference has a class for the operator, or one body for all types."""
    # Imported here for start-up time; see the module's docstring.
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeContextError
    from onnx.reference.ops import load_op
    from onnx.reference.ops.aionnx_preview import load_op as load_preview_op
    from onnx.reference.ops.aionnx_preview_training import load_op as load_training_op
    from onnx.reference.ops.aionnxml import load_op as load_ml_op

    try:
        if domain == "":
            load_op(domain, op_type, version, evaluator_cls=ReferenceEvaluator)
        else:
            loaders = {
                "ai.onnx.ml": load_ml_op,
                "ai.onnx.preview": load_preview_op,
                "ai.onnx.preview.training": load_training_op,
            }
            loaders[domain](domain, op_type, version)
    except RuntimeContextError:
        return False  # only a function of its input types
    except RuntimeError:  # NotImplementedError, or "no implementation for version"
        return False
    return True


def _make_reference_kernel(info: OpKernelInfo, *, version: int) -> Compute:
    """Make the compute function of one node.

    Its evaluator is made once, here, if the operator allows it.
    """
    node = info.node
    schema = _schema(node.domain, node.op_type, version)
    if schema is None:
        raise KernelNotFoundError(
            f"{node} is not defined in version {version}", op_type=node.op_type, opset=version
        )
    _check_required(node, schema)
    proto = node_proto(node, schema)
    prepared = _evaluator(node, proto, version) if _is_prepared_once(schema) else None
    output_types = tuple(info.output_type(slot) for slot in range(len(node.outputs)))
    static_nbytes = sum(_static_nbytes(value_type) for value_type in output_types)
    size_rule = OUTPUT_ELEMENTS.get((node.domain, node.op_type))
    work_rule = WORK.get((node.domain, node.op_type))
    copies = COPIES.get((node.domain, node.op_type), USUAL_COPIES)
    wanted = [name for name in proto.output if name]

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        largest_nbytes = max([getattr(value, "nbytes", 0) for value in inputs], default=0)
        context.check_allocation(static_nbytes + copies * largest_nbytes)
        if size_rule is not None:
            context.check_allocation(size_rule(info, inputs) * _WIDEST_ITEM)
        context.check_cancelled()
        if work_rule is not None:
            _check_work(context, node, work_rule(inputs))
        corrected = corrected_inputs(node, inputs)
        feeds = {
            name: _guarded(value)
            for name, value in zip(proto.input, corrected, strict=False)
            if name
        }

        def evaluate() -> list[Any]:
            evaluator = prepared or _evaluator(node, proto, version, corrected)
            return corrected_outputs(node, list(evaluator.run(wanted, feeds)))

        # Its loops do not check whether the run is to end.
        outputs_of_run = run_interruptibly(context, evaluate)
        results = dict(zip(wanted, outputs_of_run, strict=True))
        outputs = tuple(
            _normalised(results[name], output_type, inputs) if name else None
            for name, output_type in zip(proto.output, output_types, strict=True)
        )
        return outputs[0] if len(outputs) == 1 else outputs

    return compute


def _check_required(node: Node, schema: onnx.defs.OpSchema) -> None:
    """Raise InvalidGraphError if the node lacks an attribute that its operator requires."""
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in node.attributes:
            raise InvalidGraphError(
                f"{node} has no attribute {quoted(name)}, which it requires", node_name=node.name
            )


def node_proto(node: Node, schema: onnx.defs.OpSchema) -> NodeProto:
    """Return the node for ONNX, with values named by position (x0, ..., y0, ...) and all defaults.

    Positional names keep two uses of one value apart, and keep a model's own names out of messages.
    """
    proto = NodeProto(op_type=node.op_type, domain=node.domain)
    proto.input.extend(f"x{slot}" if name else "" for slot, name in enumerate(node.inputs))
    proto.output.extend(f"y{slot}" if name else "" for slot, name in enumerate(node.outputs))
    for name, attribute in node.attributes.items():
        proto.attribute.append(_attribute_proto(name, attribute, node))
    for name, definition in schema.attributes.items():
        if (
            name not in node.attributes
            and definition.default_value.type != AttributeProto.UNDEFINED
        ):
            proto.attribute.append(definition.default_value)
    implied = _IMPLIED_ATTRIBUTES.get((node.domain, node.op_type, schema.since_version))
    if implied is not None:
        proto.attribute.append(implied)
    correct_node(node, proto)
    return proto


def _attribute_proto(name: str, attribute: Attribute, node: Node) -> AttributeProto:
    proto = AttributeProto(name=name, type=AttributeProto.AttributeType.Value(attribute.kind))
    value = attribute.value
    match attribute.kind:
        case "INT":
            proto.i = value
        case "FLOAT":
            proto.f = value
        case "STRING":
            proto.s = value
        case "INTS":
            proto.ints.extend(value)
        case "FLOATS":
            proto.floats.extend(value)
        case "STRINGS":
            proto.strings.extend(value)
        case "TENSOR":
            proto.t.CopyFrom(_tensor_proto(value))
        case "TENSORS":
            proto.tensors.extend(_tensor_proto(tensor) for tensor in value)
        case _:
            raise InvalidGraphError(
                f"{node}: the reference kernels take no attribute of type {attribute.kind}",
                node_name=node.name,
            )
    return proto


def _tensor_proto(initializer: Any) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(initializer.numpy()), initializer.name)


def _evaluator(
    node: Node, proto: NodeProto, version: int, inputs: tuple[Value, ...] = ()
) -> ReferenceEvaluator:
    """Return an evaluator for the one node.

    ``inputs`` give the types that a context-dependent function body is made from.

    Raises:
        InvalidGraphError: the reference refuses the node's attributes.
    """
    from onnx.reference import ReferenceEvaluator  # heavy

    graph = onnx.GraphProto(name="reference", node=[proto])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in proto.input if name)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in proto.output if name)
    for declared, value in zip(
        graph.input, (value for value in inputs if value is not None), strict=False
    ):
        element_type = int(element_type_of(value.dtype))
        declared.type.CopyFrom(onnx.helper.make_tensor_type_proto(element_type, value.shape))
    model = onnx.ModelProto(ir_version=_OLDEST_IR_WITH_EVERY_TYPE, graph=graph)
    model.opset_import.add(domain=node.domain, version=version)
    try:
        return ReferenceEvaluator(model)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidGraphError(f"{node}: {quoted(error)}", node_name=node.name) from error


def _check_work(context: OpKernelContext, node: Node, operations: float) -> None:
    """Raise LimitExceededError if so many operations take longer than the run has left."""
    left_s: float | None = getattr(context, "time_left_s", None)  # contexts of trials have no clock
    if left_s is not None and operations > left_s * _MOST_OPERATIONS_PER_S:
        raise LimitExceededError(
            f"{node} would compute for longer than the {left_s:.1f} s that are left of the run's"
            " time limit",
            limit="time",
        )


def _static_nbytes(value_type: ValueType | None) -> int:
    if not isinstance(value_type, TensorType) or not value_type.is_static:
        return 0
    assert value_type.shape is not None
    sizes = [dimension for dimension in value_type.shape if isinstance(dimension, int)]
    return math.prod(sizes) * numpy_dtype(value_type.element_type).itemsize


def _guarded(value: Value) -> Value:
    """Return the value as the reference may have it: it cannot write to our arrays."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, list):
        return [_guarded(element) for element in value]
    return value


def _normalised(value: Value, value_type: ValueType | None, inputs: tuple[Value, ...]) -> Value:
    """Return the reference's output for this engine: writable, owned, of the inferred type."""
    if isinstance(value, list):
        return [_normalised(element, None, inputs) for element in value]
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.astype(object)
    if isinstance(value_type, TensorType) and array.dtype != numpy_dtype(value_type.element_type):
        return array.astype(numpy_dtype(value_type.element_type))
    shared = any(
        isinstance(source, np.ndarray) and np.may_share_memory(array, source) for source in inputs
    )
    return array.copy() if shared or not array.flags.writeable else array
