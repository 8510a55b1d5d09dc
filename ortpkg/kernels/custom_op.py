"""The declaration of an operator of one's own; :mod:`ortpkg.kernels.custom_ops` registers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A dimension is a number, a name, or None; a shape is None where not even the rank is known.
Shape = Sequence[int | str | None] | None
#: Called with the shapes of the inputs by position (None for one left out) and the attributes by
#: name.
OutputShapes = Callable[..., Sequence[Shape]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOp:
    """An operator and its kernel.

    Attributes:
        domain, op_type: as nodes name it.
        compute: called with the inputs by position (arrays that cannot be written to; None for one
            left out) and the attributes by name; returns the output, or a tuple of all of them. Any
            thread may call it, several at once.
        inputs, outputs: name → type (``"float"``, ``"seq(tensor(float))"``) or name of a
            constraint, with ``?`` behind it where it may be left out, and ``*`` behind the last
            where there may be any number.
        types: constraint → the types that it may be bound to.
        attributes: name → its default, or the type (``int``, ``float``, ``str``, ``list[int]``,
            ...) of one that a node must have.
        output_shapes: what is known of the outputs' shapes before a run; None: nothing.
        version: of the definition; a model imports the domain in this version or a later one.
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
        """Calls the kernel, as the function that it was made from."""
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
    """Makes a function into a :class:`CustomOp`; it registers nothing by itself."""

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
