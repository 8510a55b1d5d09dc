"""A loaded partition: runs its compiled program on arrays, with only numpy."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.aligned_memory import aligned_block, aligned_bytes
from ortpkg.compiler.machine_code.array_addresses import address_of
from ortpkg.compiler.machine_code.cpu_targets import reason_against_this_machine, target_named
from ortpkg.compiler.machine_code.executable_memory import ExecutableCode
from ortpkg.compiler.machine_code.executor_abi import (
    FAILED_ACCESS,
    LEAD_FUNCTION,
    RUN_FUNCTION,
    STOP,
    LaunchWord,
    Outcome,
)
from ortpkg.compiler.machine_code.launch_plan import LaunchPlan, LaunchPlanner
from ortpkg.compiler.machine_code.launch_words import ProgramWords, Words
from ortpkg.compiler.machine_code.program import Program, Space
from ortpkg.compiler.machine_code.system_waiting import wait_functions
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.arrays.mapped_parts import MappedParts
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import (
    EpContextError,
    LimitExceededError,
    RunError,
    UsageError,
    quoted,
)
from ortpkg.foundations.isolation.run_watch import WatchedRun, run_watched
from ortpkg.graph.types import numpy_dtype

Array = npt.NDArray[Any]
#: Plans that are cached, some kilobytes each; the oldest is dropped first.
_MOST_PLANS = 128
#: Blocks of memory, and words of each plan, that are kept between runs, one for each parallel run.
_MOST_IDLE = 4
#: A block that replaces a too small one is larger than needed by this part.
_SPARE_PART = 16
#: Cached here, since looking up members of enumerations is slow.
_HELPERS = int(LaunchWord.HELPERS)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class RunContext(WatchedRun, Protocol):
    """The part of OpKernelContext that a run uses."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """The code while it is in use, and the functions that enter it."""

    code: ExecutableCode
    run: Callable[[int, int], int]
    lead: Callable[[int, int], int]


@dataclass(slots=True)
class _Block:
    """Arena and scratch memory, for one run at a time."""

    memory: npt.NDArray[np.uint8]
    address: int
    nbytes: int


class _Launch:
    """Words of a plan, for one run at a time."""

    __slots__ = ("_block_address", "_memory", "address", "counters", "view", "words")

    def __init__(self, plan: LaunchPlan, layout: ProgramWords) -> None:
        count = plan.template.size
        self._memory, self.address = aligned_block(count * 8)
        start = self.address - int(self._memory.ctypes.data)
        self.words: Words = self._memory[start : start + count * 8].view(np.int64)
        self.words[:] = plan.template
        self.words[layout.own_words] = self.address + layout.own_offsets
        self.counters = self.words[layout.status :]
        self.view = self.words.data
        self._block_address = 0

    @property
    def helpers(self) -> int:
        """Number of workers inside the run."""
        return int(self.view[_HELPERS])

    def use(self, block: _Block, plan: LaunchPlan) -> None:
        """Place arena and scratch memory in this block."""
        if self._block_address != block.address:
            self.words[plan.arena_words] = block.address + plan.arena_offsets
            self.words[LaunchWord.SCRATCH] = block.address + plan.scratch_offset
            self._block_address = block.address


class LoadedProgram:
    """A program with its code and constants. Thread-safe: runs may overlap."""

    def __init__(
        self,
        program: Program,
        code: ExecutableCode,
        constants: Mapping[str, bytes | memoryview | Array],
        team: ThreadTeam,
    ) -> None:
        """Take over ``code``, which :meth:`close` closes.

        Args:
            program: a verified program.
            code: its mapped code.
            constants: part → its bytes, used in place if they are aligned.
            team: threads of the session.

        Raises:
            EpContextError: if code or constants are not the program's, or this machine does not run
                its
                target.
        """
        verify_target(program)
        _verify_code(program, code)
        self._program = program
        self._team = team
        self._functions = program.functions
        self._entry: _Entry | None = _Entry(
            code,
            _FUNCTION(code.address + program.functions[RUN_FUNCTION]),
            _FUNCTION(code.address + program.functions[LEAD_FUNCTION]),
        )
        self._planner = LaunchPlanner(program, thread_count=team.thread_count)
        self._dtypes = [numpy_dtype(spec.element_type) for spec in program.inputs]
        self._constants = [
            _constant(constants, constant.part, constant.nbytes) for constant in program.constants
        ]
        self._mapped = MappedParts(array for array, _ in self._constants)
        self._template = self._make_template(code.address)
        self._status = self._planner.words.status
        self._plans: dict[tuple[Any, ...], LaunchPlan] = {}
        self._blocks: list[_Block] = []

    def compute(self, inputs: Sequence[Any], context: RunContext) -> list[Array]:
        """Run the program on arrays in the order of its inputs; return new arrays for its outputs.

        Raises:
            RunError: if the program does not accept the arrays.
            EpContextError: if the file with the constants became shorter.
            Exception: anything that ``context`` raises to end the run.
        """
        entry = self._entry
        if entry is None:
            raise RunError("the compiled program was closed")
        self._mapped.verify_length(ep_name=LLVM_EP)
        plan = self._plans.get(tuple([array.shape for array in inputs]))
        if plan is None:
            plan = self._new_plan(inputs)
        arrays = self._fitting(inputs)
        if context.is_memory_limited:
            context.check_allocation(plan.output_nbytes + plan.block_nbytes)
        outputs, block = self._memory_for(plan)
        launch = self._launch_of(plan)
        try:
            launch.use(block, plan)
            view = launch.view
            addresses = [address_of(array) for array in arrays]
            for word, which, offset in plan.input_uses:
                view[word] = addresses[which] + offset
            addresses = [address_of(array) for array in outputs]
            for word, which, offset in plan.output_uses:
                view[word] = addresses[which] + offset
            launch.counters.fill(0)
            outcome = (
                self._enter_watched(entry, plan, launch, context)
                if context.is_watched
                else self._enter(entry, plan, launch)
            )
            if outcome:
                raise _failure(outcome, view[self._status + FAILED_ACCESS])
            if any(reported := view[self._planner.words.reports :]):
                shapes = [array.shape for array in arrays]
                raise self._planner.wrong_indices(shapes, reported.tolist())
        finally:
            _keep(self._blocks, block)
            if not launch.helpers:
                _keep(plan.idle, launch)
        return outputs

    def close(self) -> None:
        """Release code and memory as soon as no run needs them."""
        self._entry = None
        self._plans.clear()
        self._blocks.clear()

    def _enter_watched(
        self, entry: _Entry, plan: LaunchPlan, launch: _Launch, context: RunContext
    ) -> int:
        def stop() -> None:
            launch.view[self._status + STOP] = 1

        return run_watched(context, lambda: self._enter(entry, plan, launch), stop)

    def _enter(self, entry: _Entry, plan: LaunchPlan, launch: _Launch) -> int:
        if not plan.is_shared:
            return entry.run(launch.address, 0)
        holder = threading.Lock()
        with holder:
            team = self._team.borrow(holder, entry.code, self._functions, launch)
            return entry.lead(team, launch.address) if team else entry.run(launch.address, 0)

    def _new_plan(self, inputs: Sequence[Any]) -> LaunchPlan:
        if len(inputs) != len(self._dtypes):
            raise RunError(
                f"the compiled program takes {len(self._dtypes)} inputs, and was given"
                f" {len(inputs)}"
            )
        shapes = tuple([tuple(array.shape) for array in inputs])
        plan = self._planner.plan(shapes, self._template)
        while len(self._plans) >= _MOST_PLANS:
            for oldest in list(self._plans)[:1]:
                self._plans.pop(oldest, None)
        self._plans[shapes] = plan
        return plan

    def _fitting(self, inputs: Sequence[Any]) -> list[Array]:
        """Return the inputs, copied unless their memory layout is the one that the code reads."""
        fitting = []
        for index, dtype in enumerate(self._dtypes):
            array = inputs[index]
            if array.dtype is not dtype and array.dtype != dtype:
                raise self._wrong_type(inputs)
            flags = array.flags
            if flags.c_contiguous and flags.aligned:
                fitting.append(array)
            else:
                fitting.append(np.array(array, order="C", copy=True))
        return fitting

    def _wrong_type(self, inputs: Sequence[Any]) -> RunError:
        for index, (array, dtype) in enumerate(zip(inputs, self._dtypes, strict=True)):
            if array.dtype != dtype:
                name = self._program.inputs[index].name
                return RunError(
                    f"input {index} ({quoted(name)}) has elements of type {array.dtype}, and the"
                    f" compiled program takes {dtype}"
                )
        raise AssertionError("all inputs have the right type")

    def _launch_of(self, plan: LaunchPlan) -> _Launch:
        try:
            launch: _Launch = plan.idle.pop()
        except IndexError:
            launch = _Launch(plan, self._planner.words)
        return launch

    def _memory_for(self, plan: LaunchPlan) -> tuple[list[Array], _Block]:
        try:
            outputs = [np.empty(shape, dtype) for shape, dtype in plan.outputs]
            return outputs, self._take_block(plan.block_nbytes)
        except (MemoryError, ValueError) as error:  # numpy raises ValueError for huge shapes
            raise LimitExceededError(
                f"the compiled program needs {plan.output_nbytes + plan.block_nbytes} bytes for"
                " these shapes, which this machine does not give",
                limit="memory",
            ) from error

    def _take_block(self, nbytes: int) -> _Block:
        try:
            block = self._blocks.pop()
        except IndexError:
            pass
        else:
            if block.nbytes >= nbytes:
                return block
            # growing sizes, such as caches, would need new memory in each run
            nbytes += nbytes // _SPARE_PART
        memory, address = aligned_block(nbytes)
        return _Block(memory, address, nbytes)

    def _make_template(self, code_address: int) -> Words:
        words = self._planner.words
        template = words.template.copy()
        template[words.kernel_words] += code_address
        template[LaunchWord.WAIT], template[LaunchWord.WAKE] = wait_functions()
        template[LaunchWord.SPINS] = self._team.spins
        first = words.slots_of(Space.CONSTANT)
        slots = words.uses.slot - first
        is_constant = (slots >= 0) & (slots < len(self._constants))
        addresses = np.array([address for _, address in self._constants], np.int64)
        template[words.uses.word[is_constant]] = addresses[slots[is_constant]]
        return template


def verify_target(program: Program) -> None:
    """Raise EpContextError, naming what is missing, if this machine cannot run such code."""
    try:
        target = target_named(program.target)
    except UsageError as error:
        raise EpContextError(
            f"the machine code is for {quoted(program.target)}, which this version of ortpkg does"
            " not know",
            ep_name=LLVM_EP,
        ) from error
    if reason := reason_against_this_machine(target, program.extras):
        raise EpContextError(
            f"the machine code is for {target.name}, which this machine does not run: {reason}",
            ep_name=LLVM_EP,
        )


def _verify_code(program: Program, code: ExecutableCode) -> None:
    if code.nbytes != program.code_nbytes:
        raise EpContextError(
            f"the machine code has {code.nbytes} bytes, and its program is for"
            f" {program.code_nbytes} bytes",
            ep_name=LLVM_EP,
        )


def _constant(
    constants: Mapping[str, bytes | memoryview | Array], part: str, nbytes: int
) -> tuple[Array, int]:
    """Return the aligned bytes of a constant, and their address."""
    if part not in constants:
        raise EpContextError(
            f"the context has no part {quoted(part)}, which its program needs", ep_name=LLVM_EP
        )
    held = np.frombuffer(constants[part], np.uint8)
    if held.nbytes != nbytes:
        raise EpContextError(
            f"part {quoted(part)} of the context has {held.nbytes} bytes, and its program needs"
            f" {nbytes}",
            ep_name=LLVM_EP,
        )
    aligned = aligned_bytes(held)
    return aligned, int(aligned.ctypes.data)


def _keep(idle: list[Any], one: Any) -> None:
    if len(idle) < _MOST_IDLE:
        idle.append(one)


def _failure(outcome: int, failed_access: int) -> RunError:
    if outcome == Outcome.OUT_OF_BOUNDS:
        return RunError(
            f"access {failed_access - 1} of the compiled code would have left its buffer, which is"
            " a fault of the compiler; the embedded engine runs the model without it"
        )
    return RunError("the compiled program was stopped before its end")
