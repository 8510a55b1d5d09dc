"""Schedules attention: one kernel that stores the scores of only one block of keys.

A tile takes a block of queries of one head (:mod:`.attention_tiling`). For each block of keys it
multiplies queries and keys, turns the scores into weights (:mod:`.online_softmax`), and adds the
values times the weights to the output. The output stays in scratch memory and is divided by the sum
of the weights at the end. The order of the keys is fixed, whatever the number of threads.

With few queries, as when one token is decoded, the time goes into reading keys and values: nothing
is packed then, and each query reads the keys in place.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from ortpkg.compiler.loop_ir.kernel import Op
from ortpkg.compiler.schedules.attention.attention_tile import AttentionTile
from ortpkg.compiler.schedules.attention.attention_tiling import FEW_QUERIES, attention_tiling
from ortpkg.compiler.schedules.attention.blocked_attention import attend_by_blocks
from ortpkg.compiler.schedules.attention.single_attention import attend_one_by_one
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_space import split_index
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Attention


def schedule_attention(
    operation: Attention, model: MachineModel, constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernel that computes an attention; ``constants`` are read like other tensors.

    Raises:
        TypeError: if the width of keys or values is not a known number.
    """
    del constants  # queries, keys and values are not constant
    maker = KernelMaker("attention")
    b = maker.builder
    tiling = attention_tiling(operation, model)
    blocks = parts_count(operation.queries, tiling.query_block)
    sizes = (*operation.batch, blocks)
    *head, block = split_index(maker, b.tile, sizes)
    first = b.mul(b.index(block), tiling.query_block)
    end = b.least(b.add(first, tiling.query_block), maker.value(operation.queries))
    tile = AttentionTile(maker, operation, model, tiling, head, first, b.sub(end, first))
    if isinstance(operation.queries, int):
        is_few = operation.queries <= FEW_QUERIES
        (attend_one_by_one if is_few else attend_by_blocks)(tile)
    else:
        with b.when(b.compute(Op.LE, tile.count, FEW_QUERIES)):
            attend_one_by_one(tile)
        with b.otherwise():
            attend_by_blocks(tile)
    return [maker.scheduled(prod(sizes, start=1))]
