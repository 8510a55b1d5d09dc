"""Programs as data: which compiled functions run in which order on which buffers.

Sizes are numbers, or expressions over the symbols of the inputs' shapes; a dimension of an input
that is a bare symbol binds it. Nothing is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ortpkg.compiler.machine_code.abi import ABI_VERSION
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.types import ElementType

#: Alignment of the arena, its buffers, and scratch memory, in bytes: a cache line, and the widest
#: vectors.
ALIGNMENT = 64
#: Size of an :class:`IndexReport`.
REPORT_NBYTES = 8
#: Assumed cost of a step without an estimate: a millisecond.
LONG_PS = 10**9


class Space(Enum):
    """Kinds of memory that buffers are in."""

    INPUT = "input"
    OUTPUT = "output"
    REPORT = "report"
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """An input or output of the program: a C-contiguous tensor.

    Attributes:
        element_type: type of its elements.
        shape: a size for each dimension.
        name: name in the model, for messages; programs are called by position.
    """

    element_type: ElementType
    shape: tuple[Size, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferUse:
    """Memory that a step passes to its kernel as one buffer.

    Attributes:
        space: kind of memory.
        index: index among the program's inputs, outputs, reports, constants or arena buffers.
        offset: bytes from its start; the kernel gets the rest.
    """

    space: Space
    index: int
    offset: Size = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Range of a size for which a step runs.

    Attributes:
        size: the size that decides.
        least, most: bounds, both included; most is None if there is no upper bound.
    """

    size: Size
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a kernel, shared by the threads of a run.

    Attributes:
        kernel: name of a function of the program.
        buffers: buffers in the order of the kernel's parameters.
        sizes: numbers in the order of the kernel's parameters. The lengths of its buffers follow
            them
            automatically.
        tile_count: number of tiles; any thread may compute each, at any time unless they come in
            waves. With 0 the step does nothing.
        wave_tiles: number of tiles in one wave, which need the output of the wave before; 0 for no
            waves.
        chunk: number of tiles that a thread takes at once, without waves.
        name: names of the nodes that it computes, for people.
        cost_ps: estimated time of all its tiles on one thread, in picoseconds. The launch plan uses
            it
            to decide whether to share the step; results do not depend on it.
        conditions: conditions that must all hold for the step to run. So a program can have several
            versions of an operation, chosen by the sizes.
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
        nbytes: number of bytes.
        first_step, last_step: first and last step that need its content; at other steps, other
            buffers
            may use the same bytes.
    """

    nbytes: Size
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantSpec:
    """A constant: weights, packed for the kernels.

    Attributes:
        part: name of the context's part with its bytes, for all programs of a context.
        nbytes: number of bytes.
    """

    part: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """One i64 of a run in which a step counts the indices that are out of range.

    It is 0 before a run. If it is not 0 after one, the outputs are wrong, and the run fails.

    Attributes:
        node: name of the node with the indices, for messages.
        size: size of the axis that they index.
    """

    node: str
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Condition on sizes for the code to stay within its buffers.

    Attributes:
        axes: sizes of the loops; if one of them is 0, the guard holds.
        margin: size that must not be negative.
    """

    axes: tuple[Size, ...]
    margin: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The work of a compiled partition, besides its code and constants.

    Attributes:
        target: name of the CPU target of the code.
        abi_version: version of the calling interface; :data:`ABI_VERSION`.
        inputs, outputs: tensors of the partition, in its order.
        constants: constants that steps read.
        arena: memory between steps.
        steps: steps in the order in which they run.
        reports: reports of steps about the values that they read.
        scratch_nbytes: memory that each thread needs while it runs a kernel.
        functions: offsets of kernels and executor in the code, in bytes.
        guards: conditions on sizes, checked before a run; sizes that a model declares equal may
            differ
            when it runs.
        is_checked: True if the code checks each access to a buffer.
        code_nbytes: length of the code.
        extras: CPU features beyond the target's that the code uses (``"avx512_vnni"``).
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
