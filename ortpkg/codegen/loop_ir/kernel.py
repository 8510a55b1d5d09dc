"""What a kernel of the loop IR consists of: buffers, sizes, statements.

A kernel computes one *tile* of its tile space: the code that is made of it runs a range of tiles.
Indices count elements, not bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar


class Op(StrEnum):
    """Operations over values, lane by lane where nothing else is said.

    Integers wrap around. DIV of integers rounds to zero, as REM fits it; both of 0 are the
    caller's to avoid. FMA rounds once where the CPU can, else twice. MIN and MAX give NaN where an
    operand is NaN; LESSER and GREATER give the second operand where the first is not less
    (greater), as x86-64's ``minps``. ROUND goes to the even one of two equally near. SELECT takes
    its second operand where the first is true. CAST of a float to an integer rounds to zero and
    saturates, NaN becomes 0. F16 and BF16 are stored, moved, chosen, and cast from and to F32:
    nothing else takes them. BITCAST keeps the bits. SPLAT fills a vector with one number. SUM,
    LARGEST and SMALLEST make one number of a vector, halving it in a fixed order. DOT adds products
    to each lane of a vector: of an i32 vector, 4 products of u8 and i8; of an f32 vector, 2 of bf16
    and bf16, rounded as the CPU's instruction does, which takes denormals for 0. SHUFFLE takes
    lanes of two vectors one after the other by the positions in ``lanes``; EXTRACT takes
    ``lanes[0]``. ANY tells whether some lane of a vector of bool is true.
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
    """A value that one statement makes, or that a kernel or loop gets; compared by identity."""

    __slots__ = ("hint", "type")

    def __init__(self, value_type: LoopType, hint: str = "") -> None:
        self.type = value_type
        self.hint = hint


class Role(StrEnum):
    """What a buffer is to its kernel. SCRATCH is the thread's own, garbage at a tile's start."""

    INPUT = "in"
    OUTPUT = "out"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that a kernel reads or writes. No two buffers of a kernel overlap, but inputs may.

    Attributes:
        name: for people, unique in the kernel.
        scalar: kind of its elements.
        role: an OUTPUT may be read too, what the tile itself wrote.
        count: elements of a SCRATCH buffer; else 0.
    """

    name: str
    scalar: Scalar
    role: Role
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A number that is known, in every lane."""

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
    """Consecutive elements from ``index`` on.

    ``count``: only so many lanes are read (0 to all), the others are 0.
    """

    result: Value
    buffer: Buffer
    index: Value
    count: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """One element for each lane of ``indices``."""

    result: Value
    buffer: Buffer
    indices: Value


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Writes consecutive elements from ``index`` on; ``count`` as for loads."""

    buffer: Buffer
    index: Value
    value: Value
    count: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """Says that the line of ``index`` is read soon; may lie outside of the buffer."""

    buffer: Buffer
    index: Value


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """Runs ``body`` for ``variable`` = start, start + step, ... as long as it is below stop.

    Attributes:
        step: 1 or more.
        carried: the values that a pass gets: ``initial`` in the first, then what the pass before
            handed on as ``yielded``.
        results: what the last pass handed on, or ``initial`` where there was none.
        unroll: whether the body is to be written out for each pass; start and stop are constants.
        may_stop: whether each pass looks first whether the run is to end; the kernel then returns
            at once, whatever it has done. For loops that take long; not together with ``unroll``.
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
        name: for people; what tells kernels apart is their text.
        buffers: inputs and outputs, in the order of the call.
        scratch: buffers of each thread's own.
        sizes: i64 values that the caller gives.
        tile: the i64 number of the tile.
        body: what is done for it.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    sizes: tuple[Value, ...]
    tile: Value
    body: tuple[Statement, ...] = field(repr=False)

    @property
    def scratch_nbytes(self) -> int:
        """What a thread needs, each buffer at a multiple of 64 bytes."""
        return sum(aligned(buffer.count * buffer.scalar.nbytes) for buffer in self.scratch)


def aligned(nbytes: int) -> int:
    """The next multiple of 64, the alignment of buffers."""
    return -(-nbytes // 64) * 64


def values_made(statement: Statement) -> Sequence[Value]:
    """The values that the statement makes for those after it."""
    match statement:
        case Constant() | Compute() | Load() | Gather():
            return (statement.result,)
        case For():
            return statement.results
        case _:
            return ()
