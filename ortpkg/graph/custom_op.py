"""Declaration of a custom operator; :mod:`ortpkg.graph.custom_op_registry` registers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A dimension is a number, a name, or None; a shape is None if not even the rank is known.
Shape = Sequence[int | str | None] | None
#: Function that returns the output shapes from the shapes of inputs by position (None for one left
#: out) and the attributes by name.
OutputShapes = Callable[..., Sequence[Shape]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOp:
    """Operator and its kernel.

    Attributes:
        domain, op_type: name of the operator in nodes.
        compute: called with the inputs by position (arrays that cannot be written to; None for one
            left out) and the attributes by name; returns the output, or a tuple of all of them. Any
            thread may call it, several at once.
        inputs, outputs: name → type (``"float"``, ``"seq(tensor(float))"``) or name of a
            constraint; a ``?`` behind it marks an optional one, and a ``*`` behind the last one any
            number.
        types: constraint → the types that it may be bound to.
        attributes: name → its default, or the type (``int``, ``float``, ``str``, ``list[int]``,
            ...) of one that a node must have.
        output_shapes: returns what is known of the output shapes before a run; None: nothing.
        version: version of the definition; a model imports the domain in this version or a later
            one.
    """

    domain: str
    op_type: str
    compute: Callable[..., Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output_shapes: OutputShapes | None = None
    version: int = 1

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """Call the kernel like the function that it was made from."""
        return self.compute(*inputs, **attributes)


def custom_op(
    domain: str,
    op_type: str,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    types: Mapping[str, Sequence[str]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    output_shapes: OutputShapes | None = None,
    version: int = 1,
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Return a decorator that makes a function a :class:`CustomOp`; it registers nothing."""

    def declare(compute: Callable[..., Any]) -> CustomOp:
        return CustomOp(
            domain=domain,
            op_type=op_type,
            compute=compute,
            inputs=dict(inputs),
            outputs=dict(outputs),
            types=dict(types or {}),
            attributes=dict(attributes or {}),
            output_shapes=output_shapes,
            version=version,
        )

    return declare
