"""The operator ``com.microsoft:EPContext``, with its checked attributes and their defaults.

Source: onnxruntime's "EP context cache feature design", here "the design". The operator has any
number of inputs and outputs, of any type. Attributes that the design does not have survive a round
trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ortpkg.foundations.ep_names import REMOVED_EP, removed_ep_text
from ortpkg.foundations.errors import EpContextError, InvalidGraphError, quoted
from ortpkg.graph.graph import Attribute, Graph, Node
from ortpkg.graph.graph_parts import MICROSOFT_DOMAIN

EP_CONTEXT = "EPContext"

#: Attribute → its kind, in the design's order.
_KINDS: dict[str, str] = {
    "main_context": "INT",
    "ep_cache_context": "STRING",
    "embed_mode": "INT",
    "ep_sdk_version": "STRING",
    "onnx_model_filename": "STRING",
    "hardware_architecture": "STRING",
    "partition_name": "STRING",
    "source": "STRING",
    "notes": "STRING",
    "max_size": "INT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpContextAttributes:
    """Attributes of an EPContext node.

    Attributes:
        main_context: True (default) if the node refers to a context that holds its graph; otherwise
            its graph is in the context of another node, which has ``main_context``.
        ep_cache_context: the context itself with ``embed_mode``, else its path, relative to the
            ONNX file.
        embed_mode: True (default) if the context lies in the node.
        ep_sdk_version, onnx_model_filename, hardware_architecture, partition_name, notes: optional
            texts; "" if absent.
        source: key of the EP that made the node; an EP takes only nodes with a key of its own.
        max_size: left to the EP; 0 by default.
        others: attributes that the design does not have, unchanged.
    """

    main_context: bool = True
    ep_cache_context: bytes = b""
    embed_mode: bool = True
    ep_sdk_version: str = ""
    onnx_model_filename: str = ""
    hardware_architecture: str = ""
    partition_name: str = ""
    source: str = ""
    notes: str = ""
    max_size: int = 0
    others: Mapping[str, Attribute] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def context_path(self) -> str:
        """Path of the context's file relative to the model; "" if the context is embedded.

        Raises:
            InvalidGraphError: the path is not text.
        """
        if self.embed_mode:
            return ""
        return _text(self.ep_cache_context, "ep_cache_context")

    def to_attributes(self) -> dict[str, Attribute]:
        """Return the node's attributes: the context's location, non-default values, then others."""
        attributes = {
            "main_context": Attribute("INT", int(self.main_context)),
            "embed_mode": Attribute("INT", int(self.embed_mode)),
        }
        if self.main_context or self.ep_cache_context:
            attributes["ep_cache_context"] = Attribute("STRING", self.ep_cache_context)
        for name in (
            "ep_sdk_version",
            "onnx_model_filename",
            "hardware_architecture",
            "partition_name",
            "source",
        ):
            if getattr(self, name):
                attributes[name] = Attribute("STRING", getattr(self, name).encode())
        if self.notes:
            attributes["notes"] = Attribute("STRING", self.notes.encode())
        if self.max_size:
            attributes["max_size"] = Attribute("INT", self.max_size)
        return {**attributes, **self.others}

    def node_for(self, fused: Node) -> Node:
        """Return an EPContext node with these attributes in the place of ``fused``."""
        return Node(
            index=fused.index,
            name=fused.name,
            op_type=EP_CONTEXT,
            domain=MICROSOFT_DOMAIN,
            inputs=fused.inputs,
            outputs=fused.outputs,
            attributes=self.to_attributes(),
            since_version=1,
        )


def verify_maker_exists(context: EpContextAttributes) -> None:
    """Raise EpContextError for a context of an execution provider that ortpkg no longer has."""
    if removed := removed_ep_text(context.source):
        raise EpContextError(
            f"the model holds a context (EPContext) of partition"
            f" {quoted(context.partition_name)}, and {removed}",
            ep_name=REMOVED_EP,
            source=context.source,
            partition_name=context.partition_name,
        )


def is_ep_context(node: Node) -> bool:
    """Return True for an EPContext node."""
    return node.op_type == EP_CONTEXT and node.domain == MICROSOFT_DOMAIN


def ep_context_nodes(graph: Graph) -> Iterator[Node]:
    """Yield the EPContext nodes of ``graph`` and of all graphs inside it, in order."""
    for node in graph.nodes:
        if is_ep_context(node):
            yield node
        for subgraph in node.subgraphs.values():
            yield from ep_context_nodes(subgraph)


def ep_context_attributes(node: Node) -> EpContextAttributes:
    """Return the attributes of an EPContext node.

    Raises:
        InvalidGraphError: an attribute has a wrong type, a flag is neither 0 nor 1, a text is not
            UTF-8, or a main node has no context.
    """
    try:
        return _read(node.attributes)
    except InvalidGraphError as error:
        raise InvalidGraphError(f"{node}: {error}", node_name=node.name) from error


def _read(attributes: Mapping[str, Attribute]) -> EpContextAttributes:
    for name, kind in _KINDS.items():
        if name in attributes and attributes[name].kind != kind:
            raise InvalidGraphError(f"attribute {name} is {kind}, not {attributes[name].kind}")
    texts = {
        name: _text(attributes[name].value, name)
        for name, kind in _KINDS.items()
        if kind == "STRING" and name != "ep_cache_context" and name in attributes
    }
    checked = EpContextAttributes(
        main_context=_flag(attributes, "main_context"),
        embed_mode=_flag(attributes, "embed_mode"),
        ep_cache_context=bytes(attributes["ep_cache_context"].value)
        if "ep_cache_context" in attributes
        else b"",
        max_size=int(attributes["max_size"].value) if "max_size" in attributes else 0,
        others=MappingProxyType(
            {name: value for name, value in attributes.items() if name not in _KINDS}
        ),
        **texts,
    )
    if checked.main_context and not checked.ep_cache_context:
        raise InvalidGraphError(
            "main_context is 1, but ep_cache_context, which should hold or name it, is empty"
        )
    return checked


def _flag(attributes: Mapping[str, Attribute], name: str) -> bool:
    value = int(attributes[name].value) if name in attributes else 1
    if value not in (0, 1):
        raise InvalidGraphError(f"attribute {name} is 0 or 1, not {value}")
    return value == 1


def _text(value: bytes, name: str) -> str:
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidGraphError(f"attribute {name} is not UTF-8: {quoted(value[:40])}") from error
