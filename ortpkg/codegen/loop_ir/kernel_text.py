"""Kernels of the loop IR as text: for people, for tests, and to tell kernels apart.

Two kernels that do the same have the same text, whatever they are called: values are numbered in
the order in which they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortpkg.codegen.loop_ir.kernel import (
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
    """The kernel, one statement a line; ``name`` in the place of its own."""
    return "\n".join(_Text(kernel).lines(kernel, kernel.name if name is None else name)) + "\n"


class _Text:
    def __init__(self, kernel: Kernel) -> None:
        self._names: dict[Value, str] = {kernel.tile: "tile"}

    def lines(self, kernel: Kernel, name: str) -> Iterator[str]:
        for size in kernel.sizes:
            self._names[size] = size.hint
        buffers = [
            f"{each.name}: {each.role.value} {each.scalar.value}[]" for each in kernel.buffers
        ]
        scratch = [
            f"{each.name}: scratch {each.scalar.value}[{each.count}]" for each in kernel.scratch
        ]
        sizes = [f"{each.hint}: size" for each in kernel.sizes]
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
                yield f"{indent}if {self._of(statement.condition)} {{"
                yield from self._block(statement.then, indent + "  ")
                if statement.otherwise:
                    yield f"{indent}}} else {{"
                    yield from self._block(statement.otherwise, indent + "  ")
                yield f"{indent}}}"
            case _:
                yield indent + self._line(statement)

    def _for(self, loop: For, indent: str) -> Iterator[str]:
        start, stop = self._of(loop.start), self._of(loop.stop)
        initial = [self._of(each) for each in loop.initial]
        variable = self._new(loop.variable)
        carried = [
            f"{self._new(each)} = {first}"
            for each, first in zip(loop.carried, initial, strict=True)
        ]
        step = f" step {loop.step}" if loop.step != 1 else ""
        with_values = f" with ({', '.join(carried)})" if carried else ""
        way = " unrolled" if loop.unroll else " may stop" if loop.may_stop else ""
        yield f"{indent}for {variable} = {start} to {stop}{step}{with_values}{way} {{"
        yield from self._block(loop.body, indent + "  ")
        if loop.yielded:
            yield f"{indent}  next ({', '.join(map(self._of, loop.yielded))})"
        results = ", ".join(self._new(each) for each in loop.results)
        yield f"{indent}}}" + (f" -> {results}" if results else "")

    def _line(self, statement: Statement) -> str:
        match statement:
            case Constant(result, number):
                return f"{self._new(result)} = {result.type} {number!r}"
            case Compute(result, op, operands, lanes):
                words = [self._of(each) for each in operands]
                words += [f"[{', '.join(map(str, lanes))}]"] if lanes else []
                return f"{self._new(result)} = {op.value} {', '.join(words)} : {result.type}"
            case Load(result, buffer, index, count):
                place = self._place(buffer, index, count)
                return f"{self._new(result)} = load {place} : {result.type}"
            case Gather(result, buffer, indices):
                place = f"{buffer.name}[{self._of(indices)}]"
                return f"{self._new(result)} = gather {place} : {result.type}"
            case Store(buffer, index, value, count):
                return f"store {self._place(buffer, index, count)} = {self._of(value)}"
            case Prefetch(buffer, index):
                return f"prefetch {buffer.name}[{self._of(index)}]"
            case _:
                raise TypeError(f"no statement of one line: {statement}")

    def _place(self, buffer: Buffer, index: Value, count: Value | None) -> str:
        only = "" if count is None else f", first {self._of(count)}"
        return f"{buffer.name}[{self._of(index)}{only}]"

    def _new(self, value: Value) -> str:
        name = f"%{len(self._names)}"
        self._names[value] = name
        return name

    def _of(self, value: Value) -> str:
        return self._names.get(value, "%undefined")
