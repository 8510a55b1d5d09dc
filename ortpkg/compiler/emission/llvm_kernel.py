"""Emits kernels of the loop IR as functions of LLVM IR, in its text form.

A function has the kernel ABI (:mod:`ortpkg.compiler.machine_code.program`): it runs the kernel's
body for each tile from the first up to the last. With bounds checks, an access that would leave its
buffer is not made; the first one's ordinal plus 1 is written to ``status[1]`` at the end of its
tile, and the function returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.compiler.emission.bounds_checks import BoundsChecks
from ortpkg.compiler.emission.llvm_memory import MemoryAccess
from ortpkg.compiler.emission.llvm_operations import compute_lines
from ortpkg.compiler.emission.llvm_types import literal, llvm_type
from ortpkg.compiler.loop_ir.kernel import (
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
from ortpkg.compiler.loop_ir.loop_types import LoopType

PARAMETERS = "ptr %buffers, ptr %sizes, i64 %first, i64 %end, ptr %scratch, ptr %status"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmissionOptions:
    """Options of emitted code.

    Attributes:
        calling_convention: LLVM's name of the convention; "" for the target's C convention.
        attributes: attributes of each function, as LLVM IR writes them.
        features: LLVM's names of the CPU's features; some operations use special instructions.
        converts_half: True if the CPU converts f16 to and from f32; else integer code does.
        is_checked: True to check every access against the bounds of its buffer.
    """

    calling_convention: str = ""
    attributes: str = ""
    features: frozenset[str] = frozenset()
    converts_half: bool = True
    is_checked: bool = False


def kernel_function(kernel: Kernel, symbol: str, options: EmissionOptions) -> str:
    """Return a module of LLVM IR: the kernel's function under that name, and its declarations."""
    emitter = _KernelEmitter(kernel, options)
    body = emitter.function(symbol)
    return "\n".join([*sorted(emitter.declarations), "", *body, ""])


@dataclass
class _KernelEmitter:
    kernel: Kernel
    options: EmissionOptions
    declarations: set[str] = field(default_factory=set)
    _lines: list[str] = field(default_factory=list)
    _names: dict[Value, str] = field(default_factory=dict)
    _count: int = 0
    _block: str = "entry"
    _checks: BoundsChecks | None = field(init=False)
    _memory: MemoryAccess = field(init=False)

    def __post_init__(self) -> None:
        self._checks = BoundsChecks(self) if self.options.is_checked else None
        self._memory = MemoryAccess(self, self._checks)

    def function(self, symbol: str) -> list[str]:
        convention = f"{self.options.calling_convention} ".lstrip()
        # no-builtins: else LLVM turns loops into calls of memset and memcpy, which do not exist
        attributes = f'nounwind "no-builtins" {self.options.attributes}'.rstrip()
        self._prologue()
        self._tiles()
        return [
            f"define {convention}void @{symbol}({PARAMETERS}) {attributes} {{",
            "entry:",
            *self._lines,
            "}",
        ]

    # --- parts ------------------------------------------------------------------------------------

    def _prologue(self) -> None:
        self._memory.find_buffers(self.kernel)
        for index, size in enumerate(self.kernel.sizes):
            self._names[size] = self.size_word(index)
        self._memory.find_lengths(self.kernel)

    def size_word(self, index: int) -> str:
        """Load one of the sizes that the function is called with, by its index."""
        address = self._do(f"getelementptr i64, ptr %sizes, i64 {index}")
        return self._do(f"load i64, ptr {address}")

    def _tiles(self) -> None:
        head, body, done = self._label("tiles"), self._label("tile"), self._label("done")
        before = self._block
        self._line(f"br label %{head}")
        self._open(head)
        tile, following = self._name(), self._name()
        phi_line = len(self._lines)
        more = self._do(f"icmp slt i64 {tile}, %end")
        self._line(f"br i1 {more}, label %{body}, label %{done}")
        self._open(body)
        self._names[self.kernel.tile] = tile
        self._statements(self.kernel.body)
        self._line(f"{following} = add i64 {tile}, 1")
        phi = f"  {tile} = phi i64 [ %first, %{before} ], [ {following}, %{self._block} ]"
        self._lines.insert(phi_line, phi)
        if self._checks is None:
            self._line(f"br label %{head}")
        else:
            self._line(f"br i1 {self._checks.has_failed()}, label %{done}, label %{head}")
        self._open(done)
        self._line("ret void")

    def _statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Constant(result, number):
                self._names[result] = self._constant(number, result.type)
            case Compute():
                self._compute(statement)
            case Load():
                self._names[statement.result] = self._memory.load(statement)
            case Gather():
                self._names[statement.result] = self._memory.gather(statement)
            case Store():
                self._memory.store(statement)
            case Prefetch():
                self._memory.prefetch(statement)
            case For():
                self._for(statement)
            case If():
                self._if(statement)

    # --- values -----------------------------------------------------------------------------------

    def _constant(self, number: float, value_type: LoopType) -> str:
        text = literal(number, value_type.scalar)
        if value_type.lanes == 1:
            return text
        element = llvm_type(value_type.with_lanes(1))
        return f"<{', '.join([f'{element} {text}'] * value_type.lanes)}>"

    def _compute(self, statement: Compute) -> None:
        operands = [self._names[operand] for operand in statement.operands]
        self._names[statement.result] = compute_lines(statement, operands, self)

    def do(self, instruction: str) -> str:
        """Emit an instruction; return the name of its result."""
        return self._do(instruction)

    def line(self, text: str) -> None:
        """Emit an instruction without a result."""
        self._line(text)

    def call(self, intrinsic: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic with (type, value) pairs; return the name of its result."""
        kinds = ", ".join(kind for kind, _ in arguments)
        self.declarations.add(f"declare {result} @{intrinsic}({kinds})")
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        if result == "void":
            self._line(f"call void @{intrinsic}({values})")
            return ""
        return self._do(f"call {result} @{intrinsic}({values})")

    def has(self, feature: str) -> bool:
        """Return True if the CPU has a feature, by LLVM's name."""
        return feature in self.options.features

    @property
    def converts_half(self) -> bool:
        """True if the CPU converts f16."""
        return self.options.converts_half

    def splat(self, value: str, element: str, lanes: int) -> str:
        """Emit a vector with one value in each lane; return its name."""
        kind = f"<{lanes} x {element}>"
        one = self._do(f"insertelement {kind} poison, {element} {value}, i64 0")
        return self._do(
            f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )

    def name_of(self, value: Value) -> str:
        """Return the name, or the number, of a value computed before."""
        return self._names[value]

    # --- control flow -----------------------------------------------------------------------------

    def _for(self, loop: For) -> None:
        if loop.unroll:
            self._unrolled(loop)
            return
        head, body, done = self._label("loop"), self._label("body"), self._label("end")
        before = self._block
        start, stop = self._names[loop.start], self._names[loop.stop]
        initial = [self._names[value] for value in loop.initial]
        self._line(f"br label %{head}")
        self._open(head)
        variable, following = self._name(), self._name()
        self._names[loop.variable] = variable
        for carried, result in zip(loop.carried, loop.results, strict=True):
            self._names[carried] = self._names[result] = self._name()
        phi_line = len(self._lines)
        more = self._do(f"icmp slt i64 {variable}, {stop}")
        self._line(f"br i1 {more}, label %{body}, label %{done}")
        self._open(body)
        if loop.may_stop:
            self._return_if_stopped()
        self._statements(loop.body)
        self._line(f"{following} = add nsw i64 {variable}, {loop.step}")
        phis = [f"  {variable} = phi i64 [ {start}, %{before} ], [ {following}, %{self._block} ]"]
        for carried, first, next_value in zip(loop.carried, initial, loop.yielded, strict=True):
            kind = llvm_type(carried.type)
            ends = f"[ {first}, %{before} ], [ {self._names[next_value]}, %{self._block} ]"
            phis.append(f"  {self._names[carried]} = phi {kind} {ends}")
        self._lines[phi_line:phi_line] = phis
        self._line(f"br label %{head}")
        self._open(done)

    def _return_if_stopped(self) -> None:
        stop = self._do("load atomic i64, ptr %status monotonic, align 8")
        is_stopped = self._do(f"icmp ne i64 {stop}, 0")
        leaves, goes_on = self._label("leave"), self._label("on")
        self._line(f"br i1 {is_stopped}, label %{leaves}, label %{goes_on}")
        self._open(leaves)
        self._line("ret void")
        self._open(goes_on)

    def _unrolled(self, loop: For) -> None:
        """Emit the body once for each iteration; start and stop are constants."""
        values = [self._names[value] for value in loop.initial]
        start, stop = int(self._names[loop.start]), int(self._names[loop.stop])
        for number in range(start, stop, loop.step):
            self._names[loop.variable] = str(number)
            self._names.update(zip(loop.carried, values, strict=True))
            self._statements(loop.body)
            values = [self._names[value] for value in loop.yielded]
        self._names.update(zip(loop.results, values, strict=True))

    def _if(self, statement: If) -> None:
        then, otherwise, done = self._label("then"), self._label("else"), self._label("join")
        condition = self._names[statement.condition]
        self._line(f"br i1 {condition}, label %{then}, label %{otherwise}")
        for label, block in ((then, statement.then), (otherwise, statement.otherwise)):
            self._open(label)
            self._statements(block)
            self._line(f"br label %{done}")
        self._open(done)

    # --- text -------------------------------------------------------------------------------------

    def _do(self, instruction: str) -> str:
        name = self._name()
        self._line(f"{name} = {instruction}")
        return name

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def _label(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _open(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label
