"""A node without knowledge of graphs; :class:`ortpkg.graph.graph.Node` adds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.graph.graph_parts import Attribute


class OperatorCall:
    """One operator, its input and output values, and its attributes.

    Attributes:
        index: unique and stable within the graph.
        name: for people; it may be empty in a model, never here (one is made up).
        op_type, domain: the operator; ``since_version`` is the version of its definition in the
            model's opset.
        attributes: by name.
        execution_provider: "" until partitioning assigns it.
    """

    # A node may have many thousands of values, which are renamed one after the other. So the names
    # are a list, or a dictionary, while they are exchanged, and become a tuple again at the next
    # read.
    __slots__ = (
        "_implicit_inputs", "_inputs", "_outputs", "attributes", "doc_string", "domain",
        "execution_provider", "index", "metadata", "name", "op_type", "since_version",
    )  # fmt: skip

    def __init__(
        self,
        *,
        index: int,
        name: str,
        op_type: str,
        domain: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Attribute] | None = None,
        since_version: int = 0,
        execution_provider: str = "",
        implicit_inputs: tuple[str, ...] = (),
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.index = index
        self.name = name
        self.op_type = op_type
        self.domain = domain
        self._inputs: tuple[str, ...] | list[str] = inputs
        self._outputs: tuple[str, ...] | list[str] = outputs
        self._implicit_inputs: tuple[str, ...] | dict[str, None] = implicit_inputs
        self.attributes: Mapping[str, Attribute] = {} if attributes is None else attributes
        self.since_version = since_version
        self.execution_provider = execution_provider
        self.doc_string = doc_string
        self.metadata: Mapping[str, str] = {} if metadata is None else metadata

    @property
    def inputs(self) -> tuple[str, ...]:
        """Value names; "" for one left out."""
        if isinstance(self._inputs, list):
            self._inputs = tuple(self._inputs)
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Value names; "" for one left out."""
        if isinstance(self._outputs, list):
            self._outputs = tuple(self._outputs)
        return self._outputs

    @outputs.setter
    def outputs(self, names: tuple[str, ...]) -> None:
        self._outputs = names

    @property
    def implicit_inputs(self) -> tuple[str, ...]:
        """Values of outer graphs that its sub-graphs use, each once."""
        if isinstance(self._implicit_inputs, dict):
            self._implicit_inputs = tuple(self._implicit_inputs)
        return self._implicit_inputs

    @implicit_inputs.setter
    def implicit_inputs(self, names: tuple[str, ...]) -> None:
        self._implicit_inputs = names

    def exchange_input(self, slot: int, name: str) -> str:
        """Take ``name`` at ``slot``, without a look at other inputs; return the former name."""
        if not isinstance(self._inputs, list):
            self._inputs = list(self._inputs)
        old, self._inputs[slot] = self._inputs[slot], name
        return old

    def exchange_output(self, slot: int, name: str) -> str:
        """Make ``name`` at ``slot``, without a look at other outputs; return the former name."""
        if not isinstance(self._outputs, list):
            self._outputs = list(self._outputs)
        old, self._outputs[slot] = self._outputs[slot], name
        return old

    def exchange_implicit_input(self, old: str, new: str) -> None:
        """Use ``new`` instead of ``old`` in sub-graphs, without a look at other values.

        Raises:
            KeyError: if ``old`` is not used.
        """
        if not isinstance(self._implicit_inputs, dict):
            self._implicit_inputs = dict.fromkeys(self._implicit_inputs)
        del self._implicit_inputs[old]
        self._implicit_inputs[new] = None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value (strings decoded), or ``default`` if it is absent."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        if attribute.kind == "STRING":
            return attribute.value.decode("utf-8", "surrogateescape")
        if attribute.kind == "STRINGS":
            return tuple(text.decode("utf-8", "surrogateescape") for text in attribute.value)
        return attribute.value

    def __str__(self) -> str:
        domain = f"{self.domain}:" if self.domain else ""
        return f"{unquoted(domain + self.op_type)} node {quoted(self.name)}"
