"""Checks kernels of the loop IR, so that a bug shows before LLVM compiles them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ortpkg.compiler.loop_ir.kernel import (
    COMPARISONS,
    Buffer,
    Compute,
    Constant,
    For,
    Gather,
    If,
    Kernel,
    Load,
    Op,
    Prefetch,
    Role,
    Statement,
    Store,
    Value,
    values_made,
)
from ortpkg.compiler.loop_ir.loop_types import I64, LoopType, Scalar

_UNARY = frozenset({
    Op.NEG, Op.ABS, Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.NOT,
})  # fmt: skip
_FLOAT_ONLY = frozenset({Op.SQRT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.FMA})
_BITS = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})
_SHIFTS = frozenset({Op.SHL, Op.SHR})
#: Kinds that are loaded, stored, moved, and converted to and from f32.
_STORED_ONLY = frozenset({Scalar.F16, Scalar.BF16})
_TO_ONE = frozenset({Op.SUM, Op.LARGEST, Op.SMALLEST, Op.ANY})
_MOST_LANES = 256


class KernelFaultError(ValueError):
    """A kernel that breaks a rule of the loop IR: a bug in the compiler."""


def verify_kernel(kernel: Kernel) -> None:
    """Check that values are made before they are used, and that types fit.

    Raises:
        KernelFaultError: describes the first fault.
    """
    names = [buffer.name for buffer in (*kernel.buffers, *kernel.scratch)]
    names += [size.hint for size in kernel.sizes]
    if len(set(names)) != len(names) or not all(names):
        raise KernelFaultError(f"{kernel.name}: buffers and sizes need names of their own: {names}")
    _Verifier(kernel).verify_block(kernel.body, {kernel.tile, *kernel.sizes})


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self._name = kernel.name
        self._buffers = {*kernel.buffers, *kernel.scratch}

    def verify_block(self, statements: Sequence[Statement], outer: set[Value]) -> set[Value]:
        """Check statements where ``outer`` values are defined; return all defined at the end."""
        defined = set(outer)
        for statement in statements:
            self._verify(statement, defined)
            for made in values_made(statement):
                self._check(made not in defined, statement, "makes a value that is there already")
                defined.add(made)
        return defined

    def _verify(self, statement: Statement, defined: set[Value]) -> None:
        match statement:
            case Constant(result, number):
                fits = isinstance(number, int) or result.type.scalar.is_float
                self._check(fits, statement, "a fraction where an integer is to be")
            case Compute():
                self._check_defined(statement, statement.operands, defined)
                self._verify_compute(statement)
            case Load(result, buffer, index, count):
                self._verify_access(statement, buffer, index, count, defined)
                self._check(result.type.scalar is buffer.scalar, statement, "of another kind")
            case Gather(result, buffer, indices):
                self._verify_buffer(statement, buffer)
                self._check_defined(statement, (indices,), defined)
                fits = indices.type == LoopType(Scalar.I64, result.type.lanes)
                self._check(fits, statement, "indices are no i64, or of other lanes")
                self._check(result.type.scalar is buffer.scalar, statement, "of another kind")
            case Store(buffer, index, value, count):
                self._verify_access(statement, buffer, index, count, defined)
                self._check_defined(statement, (value,), defined)
                self._check(value.type.scalar is buffer.scalar, statement, "of another kind")
                self._check(buffer.role is not Role.INPUT, statement, "writes an input")
            case Prefetch(buffer, index):
                self._verify_access(statement, buffer, index, None, defined)
            case For():
                self._verify_for(statement, defined)
            case If(condition, then, otherwise):
                self._check_defined(statement, (condition,), defined)
                is_bool = condition.type == LoopType(Scalar.BOOL)
                self._check(is_bool, statement, "its condition is no bool")
                self.verify_block(then, defined)
                self.verify_block(otherwise, defined)

    def _verify_for(self, loop: For, defined: set[Value]) -> None:
        self._check_defined(loop, (loop.start, loop.stop, *loop.initial), defined)
        bounds = (loop.start.type, loop.stop.type, loop.variable.type)
        self._check(all(bound == I64 for bound in bounds), loop, "counts something else than i64")
        self._check(loop.step >= 1, loop, f"its step is {loop.step}")
        kinds = [
            [value.type for value in values]
            for values in (loop.carried, loop.initial, loop.yielded, loop.results)
        ]
        alike = all(left == right for left, right in pairwise(kinds))
        self._check(alike, loop, f"what it carries changes its type: {kinds}")
        inside = self.verify_block(loop.body, defined | {loop.variable, *loop.carried})
        self._check_defined(loop, loop.yielded, inside)

    def _verify_access(
        self,
        statement: Statement,
        buffer: Buffer,
        index: Value,
        count: Value | None,
        defined: set[Value],
    ) -> None:
        self._verify_buffer(statement, buffer)
        numbers = (index,) if count is None else (index, count)
        self._check_defined(statement, numbers, defined)
        self._check(all(number.type == I64 for number in numbers), statement, "an index is no i64")

    def _verify_buffer(self, statement: Statement, buffer: Buffer) -> None:
        is_own = buffer in self._buffers
        self._check(is_own, statement, f"the buffer {buffer.name} is not the kernel's")

    def _verify_compute(self, statement: Compute) -> None:
        op, result = statement.op, statement.result.type
        kinds = [operand.type for operand in statement.operands]
        self._check(1 <= result.lanes <= _MOST_LANES, statement, f"{result.lanes} lanes")
        self._check(len(kinds) == _arity(op), statement, f"{len(kinds)} operands")
        if op is Op.SELECT:
            fits = kinds[0] == LoopType(Scalar.BOOL, result.lanes) and kinds[1:] == [result] * 2
        elif op in COMPARISONS:
            fits = kinds[0].scalar not in _STORED_ONLY
            fits &= kinds[0] == kinds[1] and result == kinds[0].with_scalar(Scalar.BOOL)
        elif op is Op.CAST:
            pair = {kinds[0].scalar, result.scalar}
            fits = kinds[0].lanes == result.lanes and (
                not pair & _STORED_ONLY or (Scalar.F32 in pair or len(pair) == 1)
            )
        elif op is Op.BITCAST:
            fits = _bits(kinds[0]) == _bits(result) and Scalar.BOOL not in {
                kinds[0].scalar, result.scalar,
            }  # fmt: skip
        elif op is Op.SPLAT:
            fits = kinds[0] == result.with_lanes(1)
        elif op in _TO_ONE:
            fits = kinds[0].with_lanes(1) == result and kinds[0].scalar not in _STORED_ONLY
            fits &= kinds[0].lanes & (kinds[0].lanes - 1) == 0
            fits &= (kinds[0].scalar is Scalar.BOOL) == (op is Op.ANY)
        elif op is Op.DOT:
            fits = kinds == _dot_operands(result)
        elif op in {Op.SHUFFLE, Op.EXTRACT}:
            fits = self._verify_lanes(statement, kinds)
        else:
            fits = all(kind == result for kind in kinds) and _takes(op, result.scalar)
        self._check(
            fits, statement, f"{op.value} of {[str(kind) for kind in kinds]} is no {result}"
        )

    @staticmethod
    def _verify_lanes(statement: Compute, kinds: Sequence[LoopType]) -> bool:
        lanes = sum(kind.lanes for kind in kinds)
        return (
            len(set(kinds)) == 1
            and statement.result.type == kinds[0].with_lanes(len(statement.lanes))
            and all(0 <= lane < lanes for lane in statement.lanes)
        )

    def _check_defined(
        self, statement: Statement, values: Sequence[Value], defined: set[Value]
    ) -> None:
        is_known = all(value in defined for value in values)
        self._check(is_known, statement, "takes a value that is not made before it")

    def _check(self, is_right: bool, statement: Statement, fault: str) -> None:
        if not is_right:
            raise KernelFaultError(f"kernel {self._name}, {type(statement).__name__}: {fault}")


def _dot_operands(sums: LoopType) -> list[LoopType]:
    """Return the operand types of DOT for sums of this type; none if DOT cannot make it."""
    if sums.scalar is Scalar.F32:
        return [sums, *[LoopType(Scalar.BF16, 2 * sums.lanes)] * 2]
    if sums.scalar is Scalar.I32:
        return [sums, *(LoopType(scalar, 4 * sums.lanes) for scalar in (Scalar.U8, Scalar.I8))]
    return []


def _arity(op: Op) -> int:
    if op in {Op.FMA, Op.SELECT, Op.DOT}:
        return 3
    one = _UNARY | _TO_ONE | {Op.CAST, Op.BITCAST, Op.SPLAT, Op.EXTRACT}
    return 1 if op in one else 2


def _takes(op: Op, scalar: Scalar) -> bool:
    if scalar in _STORED_ONLY:
        return False
    if op in _FLOAT_ONLY:
        return scalar.is_float
    if op in _BITS:
        return not scalar.is_float
    if op in _SHIFTS:
        return scalar.is_integer
    return scalar is not Scalar.BOOL


def _bits(value_type: LoopType) -> int:
    return value_type.scalar.nbytes * value_type.lanes
