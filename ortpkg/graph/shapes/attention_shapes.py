"""Shapes of all forms of attention, rotary embeddings, and caches of keys and values."""

from __future__ import annotations

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import floor_divide, larger
from ortpkg.graph.types import ElementType

MICROSOFT = "com.microsoft"


def _sum(context: ShapeContext, left: Size, right: Size) -> Size:
    return context.compute(lambda: left + right)


def _heads(context: ShapeContext, shape: Sizes, count_name: str) -> tuple[Size, Size, Size, Size]:
    """Return (batch, heads, length, head size) of queries, keys or values."""
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) != 3:
        raise ShapeError(
            f"{context.node}: queries, keys and values have 3 or 4 dimensions, not {len(shape)}"
        )
    heads = context.attribute(count_name, 0)
    if heads < 1:
        raise ShapeError(f"{context.node}: {count_name} is {heads}")
    return shape[0], heads, shape[1], context.compute(floor_divide, shape[2], heads)


@infers("Attention")
def attention(context: ShapeContext) -> None:
    """Infer the output with the rank of the queries, and present caches: the past plus new keys."""
    query, key, value = (context.shape(slot) for slot in range(3))
    if query is None or key is None or value is None:
        return
    batch, heads, length, _ = _heads(context, query, "q_num_heads")
    _, key_heads, new, size = _heads(context, key, "kv_num_heads")
    _, value_heads, _, value_size = _heads(context, value, "kv_num_heads")
    past = context.shape(4)
    if context.has(4):
        total = (
            _sum(context, past[2], new)
            if past is not None and len(past) == 4
            else context.new_size()
        )
    else:
        total = new
    if len(query) == 4:
        context.make(0, (batch, heads, length, value_size))
    else:
        context.make(0, (batch, length, context.compute(lambda: heads * value_size)))
    context.make(1, (batch, key_heads, total, size))
    context.make(2, (batch, value_heads, total, value_size))
    context.make(3, (batch, heads, length, total))


@infers("FlexAttention", domain="ai.onnx.preview")
def flex_attention(context: ShapeContext) -> None:
    query, value = context.shape(0), context.shape(2)
    if query is None or value is None:
        return
    if len(query) != 4 or len(value) != 4:
        raise ShapeError(f"{context.node}: queries and values of 4 dimensions are needed")
    context.make(0, (*query[:3], value[3]))


@infers("LinearAttention")
def linear_attention(context: ShapeContext) -> None:
    query, key, value = (context.shape(slot) for slot in range(3))
    heads, shared = context.attribute("q_num_heads", 0), context.attribute("kv_num_heads", 0)
    if query is None or key is None or value is None or heads < 1 or shared < 1:
        return
    if not len(query) == len(key) == len(value) == 3:
        raise ShapeError(f"{context.node}: inputs (batch, length, hidden size) are needed")
    value_size = context.compute(floor_divide, value[2], shared)
    context.make(0, (query[0], query[1], context.compute(lambda: value_size * heads)))
    key_size = context.compute(floor_divide, key[2], shared)
    state_type = context.element_type(3 if context.has(3) else 0)
    context.make(1, (query[0], shared, key_size, value_size), state_type)


@infers("RotaryEmbedding")
def rotary_embedding(context: ShapeContext) -> None:
    context.make(0, context.shape(0))


@infers("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.element_type(0))


@infers("Attention", domain=MICROSOFT)
def microsoft_attention(context: ShapeContext) -> None:
    """Infer from (x, weights, bias, mask, past, ...).

    The cache is (2, batch, heads, length, size).
    """
    element_type = context.element_type(0)
    shape, weights, bias, past = (context.shape(slot) for slot in (0, 1, 2, 4))
    if shape is None or len(shape) != 3:
        context.make(0, None, element_type)
        return
    sizes = context.integers("qkv_hidden_sizes")
    if len(sizes) == 3:
        hidden: Size = sizes[2]
    elif weights is not None and len(weights) == 2:
        hidden = context.compute(floor_divide, weights[1], 3)
    elif bias is not None and len(bias) == 1:
        hidden = context.compute(floor_divide, bias[0], 3)
    else:
        hidden = context.new_size()
    context.make(0, (shape[0], shape[1], hidden), element_type)
    heads = context.attribute("num_heads", 0)
    if past is not None and len(past) == 5:
        total = (
            past[3]
            if context.attribute("past_present_share_buffer", 0)
            else _sum(context, past[3], shape[1])
        )
        context.make(1, (past[0], past[1], past[2], total, past[4]), element_type)
    elif heads and not context.has(4):
        size = context.compute(floor_divide, hidden, heads)
        context.make(1, (2, shape[0], heads, shape[1], size), element_type)


@infers("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(context: ShapeContext) -> None:
    """Infer from (query, key, value, bias, padding mask, attention bias, past key, past value).

    The query is (batch, length, hidden), or packs all three as (batch, length, heads, 3, size). The
    key may pack two as (batch, length, heads, 2, size), or be a cache (batch, heads, length, size).
    """
    element_type = context.element_type(0)
    query, key, value, past = (context.shape(slot) for slot in (0, 1, 2, 6))
    heads = context.attribute("num_heads", 0)
    if query is None or heads < 1 or len(query) not in {3, 5}:
        context.make(0, None, element_type)
        return
    if len(query) == 5:
        context.make(
            0, (query[0], query[1], context.compute(lambda: query[2] * query[4])), element_type
        )
        return
    length: Size | None = None
    size: Size | None = None
    if key is not None and len(key) == 5:
        hidden: Size = query[2]
        length = key[1]
    elif value is not None and len(value) == 3:
        hidden, length = value[2], value[1]
    elif value is not None and len(value) == 4:
        hidden, length = context.compute(lambda: value[1] * value[3]), value[2]
    else:
        hidden = context.new_size()
    context.make(0, (query[0], query[1], hidden), element_type)
    size = context.compute(floor_divide, query[2], heads)
    value_size = context.compute(floor_divide, hidden, heads)
    total = length
    if past is not None and len(past) == 4 and length is not None:
        total = past[2] if context.has(9) else _sum(context, past[2], length)
    elif context.has(6):
        total = None
    shown = context.new_size() if total is None else total
    context.make(1, (query[0], heads, shown, size), element_type)
    context.make(2, (query[0], heads, shown, value_size), element_type)
    context.make(3, (query[0], heads, query[1], shown), element_type)


@infers("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(context: ShapeContext) -> None:
    """Infer from (query, key, value, past key, past value, lengths, total length, ...).

    The cache has the greater of past and total length, or the past length if it slides.
    """
    element_type = context.element_type(0)
    query, key, past, past_value = (context.shape(slot) for slot in (0, 1, 3, 4))
    heads, shared = context.attribute("num_heads", 0), context.attribute("kv_num_heads", 0)
    if query is None or len(query) != 3 or heads < 1 or shared < 1:
        context.make(0, None, element_type)
        return
    if context.has(2):
        hidden = query[2]
        size = context.compute(floor_divide, hidden, heads)
    else:
        size = context.compute(floor_divide, query[2], heads + 2 * shared)
        hidden = context.compute(lambda: size * heads)
    context.make(0, (query[0], query[1], hidden), element_type)
    total = context.size(6)
    new = key[1] if key is not None and len(key) == 3 else query[1]
    for slot, cache in ((1, past), (2, past_value)):
        if cache is not None and len(cache) == 4 and context.attribute("sliding_window_cache", 0):
            length: Size = cache[2]
        elif cache is not None and len(cache) == 4 and total is not None:
            length = context.compute(larger, cache[2], total)
        elif not context.has(3):
            length = total if total is not None else new
        else:
            length = context.new_size()
        context.make(slot, (query[0], shared, length, size), element_type)
    if len(context.node.outputs) > 3:
        context.make(3, None, element_type)


@infers("SparseAttention", domain=MICROSOFT)
def sparse_attention(context: ShapeContext) -> None:
    """Infer from (query, key, value, past key, past value, ...).

    Present caches have the shapes of the past ones.
    """
    element_type = context.element_type(0)
    query, past = context.shape(0), context.shape(3)
    heads, shared = context.attribute("num_heads", 0), context.attribute("kv_num_heads", 0)
    if query is None or len(query) != 3 or heads < 1 or shared < 1:
        context.make(0, None, element_type)
    else:
        size = context.compute(
            floor_divide, query[2], heads if context.has(2) else heads + 2 * shared
        )
        context.make(0, (query[0], query[1], context.compute(lambda: size * heads)), element_type)
    for slot in (1, 2):
        context.make(slot, past, element_type)


@infers("MoE", "QMoE", domain=MICROSOFT)
def mixture_of_experts(context: ShapeContext) -> None:
    _result_like_first(context)


def _result_like_first(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.element_type(0))


@infers("NGramRepeatBlock", domain=MICROSOFT)
def ngram_repeat_block(context: ShapeContext) -> None:
    """Infer from (token ids, scores): the output has the shape of the scores."""
    context.make(0, context.shape(1), context.element_type(1))


@infers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_normalization(context: ShapeContext) -> None:
    """Infer the normalized sum, statistics per row in float32 (1, 2), and the sum itself (3)."""
    shape, element_type = context.shape(0), context.element_type(0)
    context.make(0, shape, element_type)
    rows = None if shape is None else (*shape[:-1], 1)
    for slot in (1, 2):
        context.make(slot, rows, ElementType.FLOAT)
    context.make(3, shape, element_type)


@infers("SimplifiedLayerNormalization", domain=MICROSOFT)
def microsoft_simplified_normalization(context: ShapeContext) -> None:
    _result_like_first(context)


@infers("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(context: ShapeContext) -> None:
    """Infer (batch, length, hidden), counts and sum from ids, segments, word embedding, ..."""
    ids, words, element_type = context.shape(0), context.shape(2), context.element_type(2)
    if ids is None or words is None or len(ids) != 2 or len(words) != 2:
        context.make(0, None, element_type)
        context.make(1, None, ElementType.INT32)
        context.make(2, None, element_type)
        return
    context.make(0, (*ids, words[1]), element_type)
    context.make(1, (ids[0],), ElementType.INT32)
    context.make(2, (*ids, words[1]), element_type)
