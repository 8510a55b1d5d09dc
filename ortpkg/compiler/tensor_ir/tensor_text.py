"""Operations of the tensor IR as text, for people and for tests.

An operation begins with its output and its kind; below stand its sizes and its expressions, as
formulas over the axes ``a0``, ``a1``, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum

from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    SizeValue,
    Tensor,
)
from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.foundations.drawing.svg import visible

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
    """Return the text of all operations; a tensor has the same name in all of them."""
    text = _Text()
    return (
        "\n".join(visible(line) for operation in operations for line in text.lines(operation))
        + "\n"
    )


class _Text:
    def __init__(self) -> None:
        self._names: dict[Tensor, str] = {}
        self._used_names: set[str] = set()
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
            case Coordinate():
                return self._coordinate(value)
            case Tensor():
                shape = ", ".join(map(str, value.shape))
                return f"{self._name(value)}: {value.scalar}[{shape}]"
            case tuple():
                return f"({', '.join(self._shown(item) for item in value)})"
            case Enum():
                return str(value.value)
            case Read() | Number() | SizeValue() | Position() | Made() | Call() | Convert():
                return self._formula(value)
        if is_dataclass(value) and hasattr(value, "kernel"):
            parts = (f"{field.name} {getattr(value, field.name)}" for field in fields(value))
            return ", ".join(parts)
        return str(value)

    def _formula(self, element: Element) -> str:
        """Return the formula of an element; a part that occurs often is formatted once."""
        entry = self._formulas.get(id(element))
        if entry is None:
            entry = self._formulas[id(element)] = (element, self._cut(self._new_formula(element)))
        return entry[1]

    def _new_formula(self, element: Element) -> str:
        match element:
            case Read(tensor, coordinates):
                return f"{self._name(tensor)}[{', '.join(map(self._coordinate, coordinates))}]"
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
                words = [self._formula(part) for part in operands]
                if function in _INFIX and len(words) == 2:
                    return f"({words[0]} {_INFIX[function]} {words[1]})"
                return f"{function}({', '.join(words)})"

    def _coordinate(self, coordinate: Coordinate) -> str:
        words = [
            f"a{axis}" if number == 1 else f"({number})*a{axis}"
            for axis, number in coordinate.terms
        ]
        words += [str(coordinate.offset)] if coordinate.offset != 0 else []
        words += [self._formula(coordinate.value)] if coordinate.value is not None else []
        return " + ".join(words) or "0"

    def _name(self, tensor: Tensor) -> str:
        if tensor not in self._names:
            base = re.sub(r"[^A-Za-z0-9_./]", "_", tensor.name)[:_MOST_NAME] or "tensor"
            name, number = base, 1
            while name in self._used_names:
                number += 1
                name = f"{base}#{number}"
            self._used_names.add(name)
            self._names[tensor] = name
        return self._names[tensor]

    @staticmethod
    def _cut(text: str) -> str:
        return text if len(text) <= _MOST_FORMULA else f"{text[:_MOST_FORMULA]}..."
