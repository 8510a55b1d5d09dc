"""A node as far as it knows nothing of graphs; :class:`ortpkg.graph.graph.Node` is the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.errors import quoted, unquoted
from ortpkg.graph.graph_parts import Attribute


class OperatorCall:
    """One operator, the values that it takes and makes, and its attributes.

    Attributes:
        index: unique and stable within the graph.
        name: for people; may be empty in a model, never here (one is made up).
        op_type, domain: the operator; ``since_version`` is the version of its definition that the
            model's opset means.
        attributes: by name.
        execution_provider: "" until partitioning assigns it.
    """

    # A node may have many thousands of values, of which one after the other gets another name. So
    # the names are a list, or a dictionary, while they are exchanged, and become a tuple again when
    # somebody reads them.
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
        """Takes ``name`` at ``slot``, without a look at the others; what stood there."""
        if not isinstance(self._inputs, list):
            self._inputs = list(self._inputs)
        old, self._inputs[slot] = self._inputs[slot], name
        return old

    def exchange_output(self, slot: int, name: str) -> str:
        """Makes ``name`` at ``slot``, without a look at the others; what stood there."""
        if not isinstance(self._outputs, list):
            self._outputs = list(self._outputs)
        old, self._outputs[slot] = self._outputs[slot], name
        return old

    def exchange_implicit_input(self, old: str, new: str) -> None:
        """Uses ``new`` for ``old`` in sub-graphs, without a look at the others.

        KeyError where it does not use it.
        """
        if not isinstance(self._implicit_inputs, dict):
            self._implicit_inputs = dict.fromkeys(self._implicit_inputs)
        del self._implicit_inputs[old]
        self._implicit_inputs[new] = None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value (strings decoded), or ``default`` where it is absent."""
        found = self.attributes.get(name)
        if found is None:
            return default
        if found.kind == "STRING":
            return found.value.decode("utf-8", "surrogateescape")
        if found.kind == "STRINGS":
            return tuple(text.decode("utf-8", "surrogateescape") for text in found.value)
        return found.value

    def __str__(self) -> str:
        domain = f"{self.domain}:" if self.domain else ""
        return f"{unquoted(domain + self.op_type)} node {quoted(self.name)}"
