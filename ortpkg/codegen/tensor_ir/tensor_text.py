"""Operations of the tensor IR as text, for people and for tests.

An operation begins with its output and its kind; below stand its sizes and its expressions, as
formulas over the axes ``a0``, ``a1``, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum

from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Position,
    Read,
    SizeValue,
    Tensor,
)
from ortpkg.codegen.tensor_ir.operations import Operation
from ortpkg.drawing.svg import visible

#: Characters of a name, and of a formula: a model chooses the first, fusion makes the second.
_MOST_NAME, _MOST_FORMULA = 60, 4000
_INFIX = {
    Function.ADD: "+",
    Function.SUB: "-",
    Function.MUL: "*",
    Function.DIV: "/",
    Function.EQ: "==",
    Function.NE: "!=",
    Function.LT: "<",
    Function.LE: "<=",
    Function.GT: ">",
    Function.GE: ">=",
}


def operations_text(operations: Sequence[Operation]) -> str:
    """All operations, one after the other; a tensor has one name in all of them."""
    text = _Text()
    return "\n".join(visible(line) for each in operations for line in text.lines(each)) + "\n"


class _Text:
    def __init__(self) -> None:
        self._names: dict[Tensor, str] = {}
        self._taken: set[str] = set()
        self._formulas: dict[int, tuple[Element, str]] = {}

    def lines(self, operation: Operation) -> Iterator[str]:
        output = operation.output
        shape = ", ".join(map(str, output.shape))
        kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(operation).__name__).lower()
        yield f"{self._name(output)}: {output.scalar}[{shape}] = {kind}"
        for field in fields(operation):
            value = getattr(operation, field.name)
            if field.name != "output" and value is not None and value != field.default:
                yield f"    {field.name}: {self._cut(self._shown(value))}"

    def _shown(self, value: object) -> str:
        match value:
            case Place():
                return self._place(value)
            case Tensor():
                shape = ", ".join(map(str, value.shape))
                return f"{self._name(value)}: {value.scalar}[{shape}]"
            case tuple():
                return f"({', '.join(self._shown(each) for each in value)})"
            case Enum():
                return str(value.value)
            case Read() | Number() | SizeValue() | Position() | Made() | Call() | Convert():
                return self._formula(value)
        if is_dataclass(value) and hasattr(value, "kernel"):
            parts = (f"{each.name} {getattr(value, each.name)}" for each in fields(value))
            return ", ".join(parts)
        return str(value)

    def _formula(self, element: Element) -> str:
        """The formula; a part that stands in it often is written once, and copied."""
        known = self._formulas.get(id(element))
        if known is None:
            known = self._formulas[id(element)] = (element, self._cut(self._new_formula(element)))
        return known[1]

    def _new_formula(self, element: Element) -> str:
        match element:
            case Read(tensor, places):
                return f"{self._name(tensor)}[{', '.join(map(self._place, places))}]"
            case Number(number, _):
                return f"{number!r}"
            case SizeValue(size):
                return f"size({size})"
            case Position(axis):
                return f"a{axis}"
            case Made():
                return "made"
            case Convert(operand, scalar):
                return f"{scalar}({self._formula(operand)})"
            case Call(function, operands):
                words = [self._formula(each) for each in operands]
                if function in _INFIX and len(words) == 2:
                    return f"({words[0]} {_INFIX[function]} {words[1]})"
                return f"{function}({', '.join(words)})"

    def _place(self, place: Place) -> str:
        words = [
            f"a{axis}" if number == 1 else f"({number})*a{axis}" for axis, number in place.terms
        ]
        words += [str(place.offset)] if place.offset != 0 else []
        words += [self._formula(place.value)] if place.value is not None else []
        return " + ".join(words) or "0"

    def _name(self, tensor: Tensor) -> str:
        if tensor not in self._names:
            base = re.sub(r"[^A-Za-z0-9_./]", "_", tensor.name)[:_MOST_NAME] or "tensor"
            name, number = base, 1
            while name in self._taken:
                number += 1
                name = f"{base}#{number}"
            self._taken.add(name)
            self._names[tensor] = name
        return self._names[tensor]

    @staticmethod
    def _cut(text: str) -> str:
        return text if len(text) <= _MOST_FORMULA else f"{text[:_MOST_FORMULA]}..."
