"""Emits the operations of the loop IR as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ortpkg.compiler.emission.llvm_small_floats import SMALL_FLOATS, narrowed, widened
from ortpkg.compiler.emission.llvm_small_floats import Emitter as SmallFloatEmitter
from ortpkg.compiler.emission.llvm_types import literal, llvm_type, suffix_of, vector_of
from ortpkg.compiler.loop_ir.kernel import COMPARISONS, Compute, Op
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar


class Emitter(SmallFloatEmitter, Protocol):
    """Receiver of emitted instructions that knows the CPU's features."""

    def call(self, intrinsic: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic with (type, value) pairs; return the name of its result."""
        ...

    def has(self, feature: str) -> bool:
        """Return True if the CPU has a feature, by LLVM's name."""
        ...


_FLOAT_BINARY = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv", Op.REM: "frem"}
_INTEGER_BINARY = {
    Op.ADD: "add",
    Op.SUB: "sub",
    Op.MUL: "mul",
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.SHL: "shl",
}
_SIGNED_BINARY = {Op.DIV: "sdiv", Op.REM: "srem", Op.SHR: "ashr"}
_UNSIGNED_BINARY = {Op.DIV: "udiv", Op.REM: "urem", Op.SHR: "lshr"}
_FLOAT_INTRINSICS = {
    Op.ABS: "fabs",
    Op.SQRT: "sqrt",
    Op.FLOOR: "floor",
    Op.CEIL: "ceil",
    Op.ROUND: "roundeven",
    Op.TRUNC: "trunc",
    Op.MIN: "minimum",
    Op.MAX: "maximum",
    # becomes a product and a sum if the target has no fused instruction
    Op.FMA: "fmuladd",
}
_SIGNED_INTRINSICS = {Op.MIN: "smin", Op.MAX: "smax"}
_UNSIGNED_INTRINSICS = {Op.MIN: "umin", Op.MAX: "umax"}
#: Ordered comparisons: false if an operand is NaN, except for NE.
_FLOAT_PREDICATES = {Op.EQ: "oeq", Op.NE: "une", Op.LT: "olt", Op.LE: "ole", Op.GT: "ogt",
                     Op.GE: "oge"}  # fmt: skip
_REDUCED_BY = {Op.SUM: Op.ADD, Op.LARGEST: Op.MAX, Op.SMALLEST: Op.MIN}
_DOT_GROUP = 4
_SHORT_NBYTES = 2
_GREATEST_F32_OF_I32 = 2**31 - 128
#: Lanes of f32 → CPU feature → the intrinsic that adds products of pairs of bf16.
_BFLOAT_DOTS = {
    4: {
        "avx512bf16": "llvm.x86.avx512bf16.dpbf16ps.128",
        "bf16": "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
    },
    8: {"avx512bf16": "llvm.x86.avx512bf16.dpbf16ps.256"},
    16: {"avx512bf16": "llvm.x86.avx512bf16.dpbf16ps.512"},
}
#: Lanes of i32 → CPU feature and the intrinsic that multiplies words and sums pairs.
_PAIRS = {
    4: ("ssse3", "llvm.x86.sse2.pmadd.wd"),
    8: ("avx2", "llvm.x86.avx2.pmadd.wd"),
    16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
}


def compute_lines(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    """Emit an operation on operands of these names; return the name of its result."""
    op, kind = statement.op, statement.operands[0].type
    special = _SPECIAL.get(op)
    if special is not None:
        return special(statement, operands, emitter)
    if op in COMPARISONS:
        return _compared(op, kind, operands, emitter)
    if op in _REDUCED_BY:
        return _reduced(_REDUCED_BY[op], kind, operands[0], emitter)
    return _lanewise(op, statement.result.type, operands, emitter)


def _lanewise(op: Op, kind: LoopType, operands: Sequence[str], emitter: Emitter) -> str:
    scalar, text = kind.scalar, llvm_type(kind)
    if op in {Op.LESSER, Op.GREATER}:
        comparison = _compared(Op.LT if op is Op.LESSER else Op.GT, kind, operands, emitter)
        condition = vector_of("i1", kind.lanes)
        chosen = ", ".join(f"{text} {operand}" for operand in operands)
        return emitter.do(f"select {condition} {comparison}, {chosen}")
    if scalar.is_float:
        if op in _FLOAT_INTRINSICS:
            return _intrinsic(_FLOAT_INTRINSICS[op], kind, operands, emitter)
        if op is Op.NEG:
            return emitter.do(f"fneg {text} {operands[0]}")
        return emitter.do(f"{_FLOAT_BINARY[op]} {text} {operands[0]}, {operands[1]}")
    return _integers(op, kind, operands, emitter)


def _integers(op: Op, kind: LoopType, operands: Sequence[str], emitter: Emitter) -> str:
    text = llvm_type(kind)
    is_unsigned = kind.scalar.is_unsigned or kind.scalar is Scalar.BOOL
    if op is Op.NOT:
        ones = "-1" if kind.lanes == 1 else emitter.splat("-1", _element(kind), kind.lanes)
        return emitter.do(f"xor {text} {operands[0]}, {ones}")
    if op is Op.NEG:
        zero = "0" if kind.lanes == 1 else "zeroinitializer"
        return emitter.do(f"sub {text} {zero}, {operands[0]}")
    if op is Op.ABS:
        if is_unsigned:
            return operands[0]
        arguments = [(text, operands[0]), ("i1", "false")]
        return emitter.call(f"llvm.abs.{suffix_of(text)}", text, arguments)
    intrinsics = _UNSIGNED_INTRINSICS if is_unsigned else _SIGNED_INTRINSICS
    if op in intrinsics:
        return _intrinsic(intrinsics[op], kind, operands, emitter)
    names = {**_INTEGER_BINARY, **(_UNSIGNED_BINARY if is_unsigned else _SIGNED_BINARY)}
    return emitter.do(f"{names[op]} {text} {operands[0]}, {operands[1]}")


def _element(kind: LoopType) -> str:
    return llvm_type(kind.with_lanes(1))


def _intrinsic(name: str, kind: LoopType, operands: Sequence[str], emitter: Emitter) -> str:
    text = llvm_type(kind)
    return emitter.call(
        f"llvm.{name}.{suffix_of(text)}", text, [(text, operand) for operand in operands]
    )


def _compared(op: Op, kind: LoopType, operands: Sequence[str], emitter: Emitter) -> str:
    text = llvm_type(kind)
    if kind.scalar.is_float:
        return emitter.do(f"fcmp {_FLOAT_PREDICATES[op]} {text} {operands[0]}, {operands[1]}")
    is_unsigned = kind.scalar.is_unsigned or kind.scalar is Scalar.BOOL
    sign = "" if op in {Op.EQ, Op.NE} else "u" if is_unsigned else "s"
    return emitter.do(f"icmp {sign}{op.value} {text} {operands[0]}, {operands[1]}")


def _reduced(op: Op, kind: LoopType, operand: str, emitter: Emitter) -> str:
    """Combine the halves of a vector until one lane is left."""
    while kind.lanes > 1:
        half = kind.with_lanes(kind.lanes // 2)
        parts = [
            _shuffled(kind, (operand, "poison"), range(first, first + half.lanes), emitter)
            for first in (0, half.lanes)
        ]
        if half.lanes == 1:
            return _lanewise(op, half, [_lane(half, part, emitter) for part in parts], emitter)
        operand, kind = _lanewise(op, half, parts, emitter), half
    return operand


def _lane(kind: LoopType, vector: str, emitter: Emitter) -> str:
    return emitter.do(f"extractelement <1 x {_element(kind)}> {vector}, i32 0")


def _shuffled(
    kind: LoopType, operands: tuple[str, str], lanes: Sequence[int] | range, emitter: Emitter
) -> str:
    text = llvm_type(kind)
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return emitter.do(
        f"shufflevector {text} {operands[0]}, {text} {operands[1]}, <{len(lanes)} x i32> <{mask}>"
    )


def _cast(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    (operand,) = operands
    source, target = statement.operands[0].type, statement.result.type
    if source.scalar is target.scalar:
        return operand
    if source.scalar in SMALL_FLOATS:
        return widened(source.scalar, source.lanes, operand, emitter)
    if target.scalar in SMALL_FLOATS:
        return narrowed(target.scalar, source.lanes, operand, emitter)
    if target.scalar is Scalar.BOOL:
        zero = "zeroinitializer" if source.lanes > 1 else ("0.0" if source.scalar.is_float else "0")
        test = "fcmp une" if source.scalar.is_float else "icmp ne"
        return emitter.do(f"{test} {llvm_type(source)} {operand}, {zero}")
    if source.scalar.is_float and not target.scalar.is_float:
        return _saturated(source, target, operand, emitter)
    return emitter.do(
        f"{_cast_word(source.scalar, target.scalar)} {llvm_type(source)} {operand}"
        f" to {llvm_type(target)}"
        if _cast_word(source.scalar, target.scalar)
        else f"bitcast {llvm_type(source)} {operand} to {llvm_type(target)}"
    )


def _cast_word(source: Scalar, target: Scalar) -> str:
    """Return LLVM's instruction; "" if the bits stay (integers of the same size)."""
    is_unsigned = source.is_unsigned or source is Scalar.BOOL
    if source.is_float:
        return "fpext" if target.nbytes > source.nbytes else "fptrunc"
    if target.is_float:
        return "uitofp" if is_unsigned else "sitofp"
    if source is Scalar.BOOL or target.nbytes > source.nbytes:
        return "zext" if is_unsigned else "sext"
    return "trunc" if target.nbytes < source.nbytes else ""


def _saturated(source: LoopType, target: LoopType, operand: str, emitter: Emitter) -> str:
    """Emit the nearest integer of the target type, rounded towards 0; 0 for NaN."""
    if target.scalar.nbytes <= _SHORT_NBYTES or target.scalar is Scalar.I32:
        return _saturated_by_i32(source, target, operand, emitter)
    name = "fptoui" if target.scalar.is_unsigned else "fptosi"
    source_text, target_text = llvm_type(source), llvm_type(target)
    return emitter.call(
        f"llvm.{name}.sat.{suffix_of(target_text)}.{suffix_of(source_text)}",
        target_text,
        [(source_text, operand)],
    )


def _saturated_by_i32(source: LoopType, target: LoopType, operand: str, emitter: Emitter) -> str:
    """Clamp the float, then convert to i32: LLVM has no vector code for the saturating cast."""
    bits, text = 8 * target.scalar.nbytes, llvm_type(source)
    least, most = (0, (1 << bits) - 1) if target.scalar.is_unsigned else (
        -(1 << bits - 1), (1 << bits - 1) - 1)  # fmt: skip
    bound = most
    if target.scalar.nbytes == source.scalar.nbytes:  # f32 cannot represent the greatest i32
        bound = _GREATEST_F32_OF_I32
    bounded = operand
    if least:  # if it is 0, the first comparison turns NaN into it
        zero = _every_lane(0, source, emitter)
        bounded = _chosen("ord", (operand, operand), (operand, zero), source, emitter)
    for predicate, number in (("ogt", least), ("olt", bound)):
        other = _every_lane(number, source, emitter)
        bounded = _chosen(predicate, (bounded, other), (bounded, other), source, emitter)
    wide = target.with_scalar(Scalar.I32)
    whole = emitter.do(f"fptosi {text} {bounded} to {llvm_type(wide)}")
    if bound != most:
        beyond = (operand, _every_lane(bound, source, emitter))
        greatest = _every_lane(most, wide, emitter)
        return _chosen("ogt", beyond, (greatest, whole), source, emitter, made=wide)
    if target.scalar is Scalar.I32:
        return whole
    return emitter.do(f"trunc {llvm_type(wide)} {whole} to {llvm_type(target)}")


def _chosen(
    predicate: str,
    compared: tuple[str, str],
    values: tuple[str, str],
    kind: LoopType,
    emitter: Emitter,
    *,
    made: LoopType | None = None,
) -> str:
    """Emit the first of two values if the comparison of floats holds, else the second."""
    left, right = compared
    is_so = emitter.do(f"fcmp {predicate} {llvm_type(kind)} {left}, {right}")
    text, condition = llvm_type(made or kind), vector_of("i1", kind.lanes)
    return emitter.do(f"select {condition} {is_so}, {text} {values[0]}, {text} {values[1]}")


def _every_lane(number: int, kind: LoopType, emitter: Emitter) -> str:
    """Emit a constant in every lane."""
    value = literal(number, kind.scalar)
    return value if kind.lanes == 1 else emitter.splat(value, _element(kind), kind.lanes)


def _bitcast(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    source, target = llvm_type(statement.operands[0].type), llvm_type(statement.result.type)
    if source == target:
        return operands[0]
    return emitter.do(f"bitcast {source} {operands[0]} to {target}")


def _select(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    kind = llvm_type(statement.result.type)
    condition = vector_of("i1", statement.result.type.lanes)
    return emitter.do(
        f"select {condition} {operands[0]}, {kind} {operands[1]}, {kind} {operands[2]}"
    )


def _splat(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    kind = statement.result.type
    return emitter.splat(operands[0], _element(kind), kind.lanes)


def _shuffle(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    kind = statement.operands[0].type
    return _shuffled(kind, (operands[0], operands[1]), statement.lanes, emitter)


def _extract(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    kind = llvm_type(statement.operands[0].type)
    return emitter.do(f"extractelement {kind} {operands[0]}, i32 {statement.lanes[0]}")


def _any(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    lanes = statement.operands[0].type.lanes
    if lanes == 1:
        return operands[0]
    mask = [(vector_of("i1", lanes), operands[0])]
    return emitter.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", mask)


def _dot(statement: Compute, operands: Sequence[str], emitter: Emitter) -> str:
    """Emit products for each lane with the best instructions that the CPU has for this size."""
    lanes = statement.result.type.lanes
    if statement.result.type.scalar is Scalar.F32:
        return _bfloat_dot(lanes, operands, emitter)
    sums, unsigned, signed = operands
    kind, bytes_kind = f"<{lanes} x i32>", f"<{_DOT_GROUP * lanes} x i8>"
    arguments = [(kind, sums), (bytes_kind, unsigned), (bytes_kind, signed)]
    has_vnni = emitter.has("avx512vnni") and (lanes == 16 or emitter.has("avx512vl"))
    has_vnni |= emitter.has("avxvnni") and lanes in {4, 8}
    if has_vnni and lanes in {4, 8, 16}:
        return emitter.call(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", kind, arguments)
    if lanes == _DOT_GROUP and emitter.has("i8mm"):
        return emitter.call("llvm.aarch64.neon.usdot.v4i32.v16i8", kind, arguments)
    if lanes == _DOT_GROUP and emitter.has("dotprod"):
        return _signed_dot(sums, unsigned, signed, emitter)
    feature, intrinsic = _PAIRS.get(lanes, ("", ""))
    if emitter.has(feature):
        return _dot_of_pairs(lanes, intrinsic, operands, emitter)
    bytes_type = LoopType(Scalar.I8, _DOT_GROUP * lanes)
    for offset in range(_DOT_GROUP):
        positions = range(offset, _DOT_GROUP * lanes, _DOT_GROUP)
        left = _shuffled(bytes_type, (unsigned, "poison"), positions, emitter)
        right = _shuffled(bytes_type, (signed, "poison"), positions, emitter)
        wide_left = emitter.do(f"zext <{lanes} x i8> {left} to {kind}")
        wide_right = emitter.do(f"sext <{lanes} x i8> {right} to {kind}")
        product = emitter.do(f"mul {kind} {wide_left}, {wide_right}")
        sums = emitter.do(f"add {kind} {sums}, {product}")
    return sums


def _bfloat_dot(lanes: int, operands: Sequence[str], emitter: Emitter) -> str:
    """Emit the CPU's instruction for pairs of bf16; DOT of bf16 is used only if there is one."""
    kind, pairs = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    intrinsics = _BFLOAT_DOTS[lanes].items()
    intrinsic = next(name for feature, name in intrinsics if emitter.has(feature))
    sides = [
        emitter.do(f"bitcast <{2 * lanes} x i16> {operand} to {pairs}") for operand in operands[1:]
    ]
    return emitter.call(intrinsic, kind, [(kind, operands[0]), *((pairs, side) for side in sides)])


def _signed_dot(sums: str, unsigned: str, signed: str, emitter: Emitter) -> str:
    """Emit unsigned products on AArch64, which only has signed ones.

    u * s is (u - 128) * s plus 128 * s, and the latter two products with 64.
    """
    kind, bytes_kind = "<4 x i32>", "<16 x i8>"

    def dot(to: str, left: str) -> str:
        arguments = [(kind, to), (bytes_kind, left), (bytes_kind, signed)]
        return emitter.call("llvm.aarch64.neon.sdot.v4i32.v16i8", kind, arguments)

    lowered = emitter.do(f"xor {bytes_kind} {unsigned}, {emitter.splat('-128', 'i8', 16)}")
    many = emitter.splat("64", "i8", 16)
    rest = dot(dot("zeroinitializer", many), many)
    return emitter.do(f"add {kind} {dot(sums, lowered)}, {rest}")


def _dot_of_pairs(lanes: int, intrinsic: str, operands: Sequence[str], emitter: Emitter) -> str:
    """Emit sums of products, exact on every x86-64.

    Even and odd bytes are widened to words, and products of words are summed in pairs.
    """
    sums, unsigned, signed = operands
    kind, words, bytes_kind = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
    eight, low = (emitter.splat(number, "i16", 2 * lanes) for number in ("8", "255"))
    left = emitter.do(f"bitcast {bytes_kind} {unsigned} to {words}")
    right = emitter.do(f"bitcast {bytes_kind} {signed} to {words}")
    raised = emitter.do(f"shl {words} {right}, {eight}")
    pairs = (
        (emitter.do(f"and {words} {left}, {low}"), emitter.do(f"ashr {words} {raised}, {eight}")),
        (emitter.do(f"lshr {words} {left}, {eight}"), emitter.do(f"ashr {words} {right}, {eight}")),
    )
    for first, second in pairs:
        made = emitter.call(intrinsic, kind, [(words, first), (words, second)])
        sums = emitter.do(f"add {kind} {sums}, {made}")
    return sums


_SPECIAL: dict[Op, Callable[[Compute, Sequence[str], Emitter], str]] = {
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
    Op.SELECT: _select,
    Op.SPLAT: _splat,
    Op.SHUFFLE: _shuffle,
    Op.EXTRACT: _extract,
    Op.ANY: _any,
    Op.DOT: _dot,
}
