"""Kernels of the loop IR as text: for people, for tests, and to compare kernels.

Kernels that do the same have the same text, whatever their names: values are numbered in the order
in which they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortpkg.compiler.loop_ir.kernel import (
    Buffer,
    Compute,
    Constant,
    For,
    Gather,
    If,
    Kernel,
    Load,
    Prefetch,
    Statement,
    Store,
    Value,
)


def kernel_text(kernel: Kernel, *, name: str | None = None) -> str:
    """Return the kernel's text, one statement a line; ``name`` replaces the kernel's name."""
    return "\n".join(_Text(kernel).lines(kernel, kernel.name if name is None else name)) + "\n"


class _Text:
    def __init__(self, kernel: Kernel) -> None:
        self._names: dict[Value, str] = {kernel.tile: "tile"}

    def lines(self, kernel: Kernel, name: str) -> Iterator[str]:
        for size in kernel.sizes:
            self._names[size] = size.hint
        buffers = [
            f"{buffer.name}: {buffer.role.value} {buffer.scalar.value}[]"
            for buffer in kernel.buffers
        ]
        scratch = [
            f"{buffer.name}: scratch {buffer.scalar.value}[{buffer.count}]"
            for buffer in kernel.scratch
        ]
        sizes = [f"{size.hint}: size" for size in kernel.sizes]
        yield f"kernel {name}({', '.join([*buffers, *scratch, *sizes])}) for tile {{"
        yield from self._block(kernel.body, "  ")
        yield "}"

    def _block(self, statements: Sequence[Statement], indent: str) -> Iterator[str]:
        for statement in statements:
            yield from self._statement(statement, indent)

    def _statement(self, statement: Statement, indent: str) -> Iterator[str]:
        match statement:
            case For():
                yield from self._for(statement, indent)
            case If():
                yield f"{indent}if {self._name(statement.condition)} {{"
                yield from self._block(statement.then, indent + "  ")
                if statement.otherwise:
                    yield f"{indent}}} else {{"
                    yield from self._block(statement.otherwise, indent + "  ")
                yield f"{indent}}}"
            case _:
                yield indent + self._line(statement)

    def _for(self, loop: For, indent: str) -> Iterator[str]:
        start, stop = self._name(loop.start), self._name(loop.stop)
        initial = [self._name(value) for value in loop.initial]
        variable = self._new(loop.variable)
        carried = [
            f"{self._new(value)} = {first}"
            for value, first in zip(loop.carried, initial, strict=True)
        ]
        step = f" step {loop.step}" if loop.step != 1 else ""
        with_values = f" with ({', '.join(carried)})" if carried else ""
        way = " unrolled" if loop.unroll else " may stop" if loop.may_stop else ""
        yield f"{indent}for {variable} = {start} to {stop}{step}{with_values}{way} {{"
        yield from self._block(loop.body, indent + "  ")
        if loop.yielded:
            yield f"{indent}  next ({', '.join(map(self._name, loop.yielded))})"
        results = ", ".join(self._new(value) for value in loop.results)
        yield f"{indent}}}" + (f" -> {results}" if results else "")

    def _line(self, statement: Statement) -> str:
        match statement:
            case Constant(result, number):
                return f"{self._new(result)} = {result.type} {number!r}"
            case Compute(result, op, operands, lanes):
                words = [self._name(operand) for operand in operands]
                words += [f"[{', '.join(map(str, lanes))}]"] if lanes else []
                return f"{self._new(result)} = {op.value} {', '.join(words)} : {result.type}"
            case Load(result, buffer, index, count):
                element = self._element(buffer, index, count)
                return f"{self._new(result)} = load {element} : {result.type}"
            case Gather(result, buffer, indices):
                element = f"{buffer.name}[{self._name(indices)}]"
                return f"{self._new(result)} = gather {element} : {result.type}"
            case Store(buffer, index, value, count):
                return f"store {self._element(buffer, index, count)} = {self._name(value)}"
            case Prefetch(buffer, index):
                return f"prefetch {buffer.name}[{self._name(index)}]"
            case _:
                raise TypeError(f"no statement of one line: {statement}")

    def _element(self, buffer: Buffer, index: Value, count: Value | None) -> str:
        only = "" if count is None else f", first {self._name(count)}"
        return f"{buffer.name}[{self._name(index)}{only}]"

    def _new(self, value: Value) -> str:
        name = f"%{len(self._names)}"
        self._names[value] = name
        return name

    def _name(self, value: Value) -> str:
        return self._names.get(value, "%undefined")
