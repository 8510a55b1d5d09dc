"""Parts of a kernel of the loop IR: buffers, sizes, statements.

A kernel computes one *tile* of its tile space; its compiled code runs a range of tiles.
Indices count elements, not bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar


class Op(StrEnum):
    """Operations over values, lane by lane unless stated otherwise.

    Integers wrap around. DIV of integers rounds towards zero, and REM matches it; the caller avoids
    a divisor of 0. FMA rounds once if the CPU can, else twice. MIN and MAX give NaN if an operand
    is NaN; LESSER and GREATER give the second operand unless the first is less (greater), as
    x86-64's ``minps``. ROUND rounds half to even. SELECT takes its second operand where the first
    is true. CAST of a float to an integer rounds towards zero and saturates; NaN becomes 0. F16 and
    BF16 can only be stored, moved, selected, and cast from and to F32. BITCAST keeps the bits.
    SPLAT fills a vector with one number. SUM, LARGEST and SMALLEST reduce a vector to one number,
    halving it in a fixed order. DOT adds products to each lane of a vector: to an i32 lane, 4
    products of u8 and i8; to an f32 lane, 2 of bf16 and bf16, rounded as the CPU's instruction
    does, which takes denormals for 0. SHUFFLE takes lanes of two concatenated vectors by the
    positions in ``lanes``; EXTRACT takes ``lanes[0]``. ANY is true if some lane of a vector of bool
    is.
    """

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    REM = "rem"
    MIN = "min"
    MAX = "max"
    LESSER = "lesser"
    GREATER = "greater"
    FMA = "fma"
    NEG = "neg"
    ABS = "abs"
    SQRT = "sqrt"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    TRUNC = "trunc"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    SHL = "shl"
    SHR = "shr"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    SELECT = "select"
    CAST = "cast"
    BITCAST = "bitcast"
    SPLAT = "splat"
    SUM = "sum"
    LARGEST = "largest"
    SMALLEST = "smallest"
    DOT = "dot"
    SHUFFLE = "shuffle"
    EXTRACT = "extract"
    ANY = "any"


COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})


class Value:
    """A value made by one statement, or received by a kernel or loop; compared by identity."""

    __slots__ = ("hint", "type")

    def __init__(self, value_type: LoopType, hint: str = "") -> None:
        self.type = value_type
        self.hint = hint


class Role(StrEnum):
    """Use of a buffer in its kernel; SCRATCH belongs to a thread, undefined at a tile's start."""

    INPUT = "in"
    OUTPUT = "out"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that a kernel reads or writes. Only inputs may overlap.

    Attributes:
        name: unique name in the kernel, for people.
        scalar: type of its elements.
        role: use of the buffer; a tile may also read what it wrote to an OUTPUT.
        count: number of elements of a SCRATCH buffer; else 0.
    """

    name: str
    scalar: Scalar
    role: Role
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant number, in every lane."""

    result: Value
    number: int | float


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """An operation over values. ``lanes``: positions for SHUFFLE and EXTRACT."""

    result: Value
    op: Op
    operands: tuple[Value, ...]
    lanes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Loads consecutive elements from ``index`` on.

    Attributes:
        count: number of lanes to read, 0 to all; the others are 0. None for all.
    """

    result: Value
    buffer: Buffer
    index: Value
    count: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """Loads one element for each lane of ``indices``."""

    result: Value
    buffer: Buffer
    indices: Value


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Stores consecutive elements from ``index`` on; ``count`` as in :class:`Load`."""

    buffer: Buffer
    index: Value
    value: Value
    count: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """Hints that the line of ``index``, which may be outside the buffer, is read soon."""

    buffer: Buffer
    index: Value


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """Runs ``body`` for ``variable`` = start, start + step, ... while it is below stop.

    Attributes:
        step: 1 or more.
        carried: values that an iteration receives: ``initial`` in the first, then the previous
            iteration's ``yielded``.
        results: values that the last iteration yielded, or ``initial`` if there was none.
        unroll: True to write the body out for each iteration; start and stop must be constants.
        may_stop: True if each iteration first checks whether the run must end; the kernel then
            returns
            at once, unfinished. For loops that take long; not together with ``unroll``.
    """

    variable: Value
    start: Value
    stop: Value
    step: int
    carried: tuple[Value, ...]
    initial: tuple[Value, ...]
    yielded: tuple[Value, ...]
    results: tuple[Value, ...]
    body: tuple[Statement, ...]
    unroll: bool = False
    may_stop: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """Runs one of two bodies."""

    condition: Value
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Constant | Compute | Load | Gather | Store | Prefetch | For | If


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A function over buffers and sizes, for one tile.

    Attributes:
        name: name for people; kernels are compared by their text.
        buffers: inputs and outputs, in the order of the call.
        scratch: buffers that belong to each thread.
        sizes: i64 values that the caller passes.
        tile: the i64 number of the tile.
        body: statements that compute the tile.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    sizes: tuple[Value, ...]
    tile: Value
    body: tuple[Statement, ...] = field(repr=False)

    @property
    def scratch_nbytes(self) -> int:
        """Bytes of scratch that a thread needs, each buffer at a multiple of 64 bytes."""
        return sum(aligned(buffer.count * buffer.scalar.nbytes) for buffer in self.scratch)


def aligned(nbytes: int) -> int:
    """Return the next multiple of 64, the alignment of buffers."""
    return -(-nbytes // 64) * 64


def values_made(statement: Statement) -> Sequence[Value]:
    """Return the values that a statement makes for those after it."""
    match statement:
        case Constant() | Compute() | Load() | Gather():
            return (statement.result,)
        case For():
            return statement.results
        case _:
            return ()
