"""List the files that a model names: external data of tensors, contexts of EPContext nodes.

Nothing is judged and no such file is opened, so that even a hostile model can be listed completely;
the checks judge each name. Covered are initializers (sparse ones too), tensors in attributes,
sub-graphs, functions and training graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import onnx

from ortpkg.foundations.errors import ModelError, quoted
from ortpkg.graph.external_data import is_external
from ortpkg.graph.load_control import DECLARED_NBYTES, poll_load
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import MICROSOFT_DOMAIN
from ortpkg.graph.proto_text import entries_of
from ortpkg.graph.proto_walk import walk_nodes, walk_tensors
from ortpkg.graph.types import MOST_DIMENSIONS, ElementType, stored_nbytes
from ortpkg.graph.value_types import element_type_from_number

_NO_OFFSET = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReference:
    """Place of one tensor's data.

    Attributes:
        tensor: its name; "" for one in an attribute without a name.
        location: as written; "" if there is none.
        offset: in bytes.
        nbytes: the stated length, or else the size by type and shape; None if neither is known.
        problem: what is wrong with offset, length or type; "" for nothing. Otherwise offset and
            ``nbytes`` mean nothing.
    """

    tensor: str
    location: str
    offset: int = 0
    nbytes: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReference:
    """One EPContext node.

    Attributes:
        node: its name.
        location: ``ep_cache_context`` if that is a file (``embed_mode`` 0); else "".
        source: the execution provider that made it; "" if not stated.
        is_main: ``main_context``; other nodes use the context of a main one.
    """

    node: str
    location: str
    source: str
    is_main: bool


def data_references(model: onnx.ModelProto, limits: ModelLimits) -> Iterator[DataReference]:
    """Yield a reference for each tensor with external data.

    Raises:
        InvalidGraphError: the model exceeds the limits.
    """
    for tensor in walk_tensors(model, limits=limits):
        if is_external(tensor):
            poll_load(DECLARED_NBYTES)
            yield _data_reference(tensor)


def context_references(model: onnx.ModelProto, limits: ModelLimits) -> Iterator[ContextReference]:
    """Yield a reference for each EPContext node.

    Raises:
        InvalidGraphError: the model exceeds the limits.
    """
    for node in walk_nodes(model, limits=limits):
        if node.op_type == "EPContext" and node.domain == MICROSOFT_DOMAIN:
            attributes = {attribute.name: attribute for attribute in node.attribute}
            embedded, main = attributes.get("embed_mode"), attributes.get("main_context")
            is_file = embedded is not None and not embedded.i
            yield ContextReference(
                node=str(node.name),
                location=_text(attributes.get("ep_cache_context")) if is_file else "",
                source=_text(attributes.get("source")),
                is_main=main is None or bool(main.i),
            )


def _text(attribute: onnx.AttributeProto | None) -> str:
    return "" if attribute is None else attribute.s.decode("utf-8", "replace")


def _data_reference(tensor: onnx.TensorProto) -> DataReference:
    name = str(tensor.name)
    try:
        entries = entries_of(tensor.external_data, "its external data")
    except ModelError as error:
        return DataReference(tensor=name, location="", problem=str(error))
    location = entries.get("location", "")
    numbers: dict[str, int] = {}
    for key in ("offset", "length"):
        if key in entries:
            text = entries[key]
            if not (
                text.isascii() and text.isdigit() and len(text) < 20 and int(text) < _NO_OFFSET
            ):
                problem = f"has the {key} {quoted(text)}; a whole number below 2^63 was expected"
                return DataReference(tensor=name, location=location, problem=problem)
            numbers[key] = int(text)
    needed, problem = _needed_nbytes(tensor)
    length = numbers.get("length")
    if not problem and length is not None and needed is not None and length != needed:
        problem = f"has the length {length}; its type and shape need {needed} bytes"
    return DataReference(
        tensor=name,
        location=location,
        offset=numbers.get("offset", 0),
        nbytes=needed if length is None else length,
        problem=problem,
    )


def _needed_nbytes(tensor: onnx.TensorProto) -> tuple[int | None, str]:
    """Return the size of the tensor in bytes, and what is wrong with its type or shape."""
    if len(tensor.dims) > MOST_DIMENSIONS:
        return None, f"has {len(tensor.dims)} dimensions"
    if any(dimension < 0 for dimension in tensor.dims):
        return None, "has a negative dimension"
    try:
        element_type = element_type_from_number(tensor.data_type, "")
    except ModelError:
        return None, f"has the unknown element type {tensor.data_type}"
    if element_type in (ElementType.UNDEFINED, ElementType.STRING):
        return None, "has a type that cannot have external data"
    return stored_nbytes(element_type, prod(tensor.dims)), ""
