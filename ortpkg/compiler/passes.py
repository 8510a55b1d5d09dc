"""The passes between lowering and schedules, in order."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.compiler.fusion.alias_views import read_through_aliases, root_of
from ortpkg.compiler.fusion.attention_of_products import fuse_attention
from ortpkg.compiler.fusion.bf16_rounding import round_products
from ortpkg.compiler.fusion.epilogues import fuse_epilogues
from ortpkg.compiler.fusion.inlining import inline_maps
from ortpkg.compiler.fusion.integer_convolutions import without_zero_points
from ortpkg.compiler.fusion.quantized_products import multiply_codes
from ortpkg.compiler.fusion.requantization import requantize_at_once
from ortpkg.compiler.fusion.unused_operations import remove_unused
from ortpkg.compiler.fusion.wide_halves import widen_halves
from ortpkg.compiler.tensor_ir.elements import Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Alias, Map
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram

#: Limit of fusion rounds; fusion ends earlier when a round removes no operation.
_MOST_ROUNDS = 8


def optimized(program: TensorProgram, *, multiplies_bfloat: bool = False) -> TensorProgram:
    """Return the program after all fusions that pay, ready to be scheduled.

    Args:
        program: the lowered program.
        multiplies_bfloat: True if products may round their operands to bf16.
    """
    program = widen_halves(remove_unused(program))
    program = _fused(multiply_codes(read_through_aliases(program)))
    program = fuse_attention(without_zero_points(requantize_at_once(program)))
    if multiplies_bfloat:
        program = _fused(round_products(program))
    return with_own_outputs(program)


def _fused(program: TensorProgram) -> TensorProgram:
    """Return the program with maps fused into the operations before and after them."""
    for _ in range(_MOST_ROUNDS):
        count = len(program.operations)
        program = fuse_epilogues(read_through_aliases(program))
        program = remove_unused(inline_maps(read_through_aliases(program)))
        if len(program.operations) == count:
            break
    return program


def with_own_outputs(program: TensorProgram) -> TensorProgram:
    """Copy outputs that would share memory with an input, a constant or another output."""
    sources = {
        operation.output: operation.source
        for operation in program.operations
        if isinstance(operation, Alias)
    }
    used_roots: set[Tensor] = {*program.inputs, *program.constants}
    operations, outputs = list(program.operations), []
    for output in program.outputs:
        root = root_of(output, sources)
        if root in used_roots:
            copy = Tensor(output.name, output.scalar, output.shape)
            coordinates = tuple(along(axis) for axis in range(len(copy.shape)))
            operations.append(
                Map(
                    output=copy,
                    axes=copy.shape,
                    value=Read(output, coordinates),
                    coordinates=coordinates,
                )
            )
            output = root = copy
        used_roots.add(root)
        outputs.append(output)
    return replace(program, operations=tuple(operations), outputs=tuple(outputs))
