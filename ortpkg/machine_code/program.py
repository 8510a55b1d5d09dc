"""A program: which compiled functions run in which order on which buffers, as data.

Sizes are numbers, or expressions over the symbols of the inputs' shapes; a dimension of an input
that is a bare symbol binds it. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ortpkg.graph.types import ElementType
from ortpkg.machine_code.abi import ABI_VERSION
from ortpkg.shapes.expressions import Size

#: Alignment of the arena, of what lies in it and of scratch memory, in bytes: a cache line, and the
#: widest vectors.
ALIGNMENT = 64
#: Of an :class:`IndexReport`.
REPORT_NBYTES = 8
#: What a step is taken to cost of which nothing is known: a millisecond.
LONG_PS = 10**9


class Space(Enum):
    """What kind of memory a buffer lies in."""

    INPUT = "input"
    OUTPUT = "output"
    REPORT = "report"
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """An input or output of the program: a C-contiguous tensor.

    Attributes:
        element_type: of its elements.
        shape: a size for each dimension.
        name: in the model, for messages; programs are called by position.
    """

    element_type: ElementType
    shape: tuple[Size, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferUse:
    """The memory that a step hands to its kernel as one buffer.

    Attributes:
        space: which kind.
        index: which of that kind: of the program's inputs, outputs, reports, constants or arena
            buffers.
        offset: bytes from its start; the kernel gets the rest of it.
    """

    space: Space
    index: int
    offset: Size = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """For which sizes a step is there.

    Attributes:
        size: what decides.
        least, most: the range in which it must lie, both included; most is None where there is no
            upper limit.
    """

    size: Size
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a kernel, shared by the threads of a run.

    Attributes:
        kernel: name of a function of the program.
        buffers: what it gets, in the order of its parameters.
        sizes: the numbers that it gets, in the order of its parameters. The lengths of its buffers
            follow them by themselves.
        tile_count: how many tiles it has; each may be computed by any thread, at any time where
            they do not come in waves. With 0
            the step does nothing.
        wave_tiles: how many tiles one wave has: tiles of it need what the wave before has written.
            0: there are no waves.
        chunk: how many tiles a thread takes at once, where there are no waves.
        name: the nodes that it computes, for people.
        cost_ps: an estimate of how long all its tiles take one thread, in picoseconds, by which
            the launch plan decides whether to share it; results do not depend on it.
        conditions: the step does nothing where one of them does not hold. So a program has several
            versions of an operation, of which the sizes choose one.
    """

    kernel: str
    buffers: tuple[BufferUse, ...]
    sizes: tuple[Size, ...] = ()
    tile_count: Size = 1
    wave_tiles: Size = 0
    chunk: int = 1
    name: str = ""
    cost_ps: Size = LONG_PS
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaBuffer:
    """Memory for a value between steps.

    Attributes:
        nbytes: how much.
        first_step, last_step: the steps, both included, between which its content counts; outside
            of them other buffers may lie in the same bytes.
    """

    nbytes: Size
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantSpec:
    """A constant: weights, packed as the kernels want them.

    Attributes:
        part: the part of the context that has its bytes, for all programs of a context.
        nbytes: how many there are.
    """

    part: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """One i64 of a run in which a step counts the indices that are out of range.

    It is 0 before a run. Where it is not after one, the outputs are wrong, and the run fails.

    Attributes:
        node: whose indices they are, for messages.
        size: of the axis that they point into.
    """

    node: str
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What sizes must satisfy for the code to stay within its buffers.

    Attributes:
        axes: how far loops count; where one of them is 0, nothing is asked.
        margin: must not be below 0.
    """

    axes: tuple[Size, ...]
    margin: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a compiled partition does, beside its code and its constants.

    Attributes:
        target: name of the CPU target that the code is for.
        abi_version: how the code is called; :data:`ABI_VERSION`.
        inputs, outputs: of the partition, in its order.
        constants: what steps read.
        arena: memory between steps.
        steps: in the order in which they run.
        reports: what steps report of the values that they see.
        scratch_nbytes: memory that each thread needs for itself while it runs a kernel.
        functions: where kernels and the executor begin in the code, in bytes.
        guards: what is asked of the sizes before a run; shapes that a model declares equal may
            differ when it runs.
        is_checked: the code checks each access to a buffer.
        code_nbytes: of the code.
        extras: CPU features beyond those of the target that the code uses (``"avx512_vnni"``).
    """

    target: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[ConstantSpec, ...]
    arena: tuple[ArenaBuffer, ...]
    steps: tuple[Step, ...]
    functions: Mapping[str, int]
    code_nbytes: int
    scratch_nbytes: Size = 0
    guards: tuple[Guard, ...] = ()
    reports: tuple[IndexReport, ...] = ()
    is_checked: bool = False
    abi_version: int = ABI_VERSION
    extras: tuple[str, ...] = ()
