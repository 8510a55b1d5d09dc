"""Inputs of attention with a cache: attributes, lengths, heads, rotation angles, the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.axes import wrapped_indices
from ortpkg.runtime.kernels.element_types import compute_dtype
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAttributes:
    """Attributes of a node that describe its heads.

    Attributes:
        count: number of query heads.
        shared: number of heads of keys and values; several query heads share one.
        scale: factor of the scores; 0 derives it from the size of a head.
        do_rotary, interleaved: True if queries and keys are rotated by their positions, and if
            pairs of features are neighbours.
    """

    count: int
    shared: int
    scale: float
    do_rotary: bool
    interleaved: bool

    @classmethod
    def of(cls, info: OpKernelInfo) -> HeadAttributes:
        """Read a node's attributes. Raises ValueError if the heads cannot be shared."""
        attributes = cls(
            count=int(info.attribute("num_heads", 0)),
            shared=int(info.attribute("kv_num_heads", 0)),
            scale=float(info.attribute("scale", 0.0)),
            do_rotary=bool(info.attribute("do_rotary", 0)),
            interleaved=bool(info.attribute("rotary_interleaved", 0)),
        )
        if attributes.count < 1 or attributes.shared < 1 or attributes.count % attributes.shared:
            raise ValueError(
                f"num_heads={attributes.count} is no multiple of kv_num_heads={attributes.shared}"
            )
        return attributes

    def scale_of(self, size: int) -> float:
        """Return the factor of the scores of heads of ``size``."""
        return self.scale or 1 / math.sqrt(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths of the sequences of a batch.

    Attributes:
        new: number of new queries per sequence.
        total: length of the longest sequence, new queries included.
        present: number of positions in the present cache.
        starts: position of the first query, per sequence.
        stops: number of keys, per sequence.
        is_first_prompt: True if there is no past.
    """

    new: int
    total: int
    present: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    is_first_prompt: bool

    @classmethod
    def of(
        cls,
        batch: int,
        new: int,
        past: int,
        seqlens: Tensor,
        total_length: Tensor,
        *,
        is_windowed: bool = False,
    ) -> Lengths:
        """Assign queries to positions of the cache.

        Args:
            batch, new: number of sequences, and of new queries of each.
            past: number of positions in the past cache.
            seqlens: position of the last query, per sequence.
            total_length: length of the longest sequence.
            is_windowed: True if the cache keeps no more than the positions that it has.

        Raises:
            ValueError: they do not fit each other.
        """
        if total_length.size != 1:
            raise ValueError(
                f"total_sequence_length is one number, not a tensor of shape {total_length.shape}"
            )
        if seqlens.shape != (batch,):
            raise ValueError(
                f"seqlens_k has the shape ({batch},), one per sequence, not {seqlens.shape}"
            )
        total = int(total_length.reshape(()))
        if total < new or total < 1:
            raise ValueError(f"total_sequence_length {total} is less than the {new} new ones")
        is_first = new == total
        if not is_first and new > 1 and batch > 1:
            raise ValueError(f"{new} new queries over a past take a batch of 1, not of {batch}")
        present = past if is_windowed else max(total, past)
        stops = tuple(int(length) + 1 for length in seqlens)
        starts = tuple(0 if is_first else stop - new for stop in stops)
        for index, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if start < 0 or stop < 1 or stop > total or (start > past and not is_windowed):
                raise ValueError(
                    f"seqlens_k[{index}]={stop - 1} does not fit {new} new queries, a past of"
                    f" {past} and total_sequence_length={total}"
                )
        return cls(
            new=new,
            total=total,
            present=present,
            starts=starts,
            stops=stops,
            is_first_prompt=is_first,
        )


def split_heads(
    query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, shared: int
) -> list[Tensor]:
    """Return query, key and value as views (batch, length, heads, size)."""
    if query.ndim != 3:
        raise ValueError(f"query has the shape (batch, length, hidden size), not {query.shape}")
    if (key is None) != (value is None):
        raise ValueError("key and value are both given or, packed into query, both left out")
    batch, length, width = query.shape
    in_query = heads if key is not None else heads + 2 * shared
    size = width // in_query
    if size == 0 or width % in_query:
        raise ValueError(f"a query of shape {query.shape} does not divide into {in_query} heads")
    if key is None or value is None:
        packed = query.reshape(batch, length, in_query, size)
        return [
            packed[:, :, :heads],
            packed[:, :, heads : heads + shared],
            packed[:, :, heads + shared :],
        ]
    for name, x in (("key", key), ("value", value)):
        if x.shape != (batch, length, shared * size) or x.dtype != query.dtype:
            raise ValueError(
                f"{name} has the shape {(batch, length, shared * size)} and the type {query.dtype}"
                f" of query, not {x.shape} and {x.dtype}"
            )
    return [
        query.reshape(batch, length, heads, size),
        key.reshape(batch, length, shared, size),
        value.reshape(batch, length, shared, size),
    ]


def past_length(past_key: Tensor | None, past_value: Tensor | None, like: Tensor) -> int:
    """Return the number of positions in the past cache, 0 if there is none.

    ``like`` is the new key (batch, length, shared heads, size).
    """
    if past_key is None and past_value is None:
        return 0
    if past_key is None or past_value is None:
        raise ValueError("past_key and past_value are both given or both left out")
    batch, _, shared, size = like.shape
    for name, past in (("past_key", past_key), ("past_value", past_value)):
        expected = (batch, shared, past_key.shape[2] if past_key.ndim == 4 else 0, size)
        if past.shape != expected or past.dtype != like.dtype:
            raise ValueError(
                f"{name} has the shape {expected}, (batch, kv_num_heads, length, size), and the"
                f" type {like.dtype}, not {past.shape} and {past.dtype}"
            )
    return int(past_key.shape[2])


def angles(
    context: OpKernelContext,
    cosines: Tensor | None,
    sines: Tensor | None,
    position_ids: Tensor | None,
    lengths: Lengths,
    like: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of each token, (batch or 1, length, n), in the compute type."""
    if cosines is None or sines is None:
        raise ValueError("do_rotary=1 needs cos_cache and sin_cache")
    if cosines.ndim != 2 or cosines.shape != sines.shape or 2 * cosines.shape[1] > like.shape[3]:
        raise ValueError(
            f"caches of shapes {cosines.shape} and {sines.shape} do not turn heads of size"
            f" {like.shape[3]}"
        )
    if cosines.shape[0] < lengths.total:
        raise ValueError(
            f"caches of {cosines.shape[0]} positions are too short for {lengths.total}"
        )
    expected = (like.shape[0], lengths.new)
    if position_ids is not None and position_ids.shape != expected:
        raise ValueError(
            f"position_ids has the shape {expected}, (batch, length), not {position_ids.shape}"
        )
    wide = compute_dtype(like.dtype)
    if lengths.is_first_prompt:
        first = 0 if position_ids is None or not position_ids.size else int(position_ids.flat[0])
        if first < 0 or first + lengths.new > cosines.shape[0]:
            raise ValueError(f"caches have no rows for the {lengths.new} positions from {first} on")
        rows = slice(first, first + lengths.new)
        return cosines[None, rows].astype(wide, copy=False), sines[None, rows].astype(
            wide, copy=False
        )
    positions = (
        np.array(lengths.starts)[:, None] + np.arange(lengths.new)
        if position_ids is None
        else position_ids
    )
    if positions.size and positions.min() < 0:
        raise ValueError(f"position {positions.min()} is negative")
    rows_nbytes = positions.size * cosines.shape[1] * (cosines.itemsize + wide.itemsize)
    context.check_allocation(2 * rows_nbytes)
    cache_rows = wrapped_indices(positions, cosines.shape[0], context.check_allocation)
    return cosines[cache_rows].astype(wide, copy=False), sines[cache_rows].astype(wide, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedKeys:
    """Keys and values that the queries of one sequence may attend to.

    Attributes:
        keys, values: (shared heads, count, size).
        position: position of the first of them.
    """

    keys: Tensor
    values: Tensor
    position: int = 0


def fill_cache(cache: Tensor, past: Tensor | None, new: Tensor, lengths: Lengths) -> None:
    """Write past, new and zeros to ``cache`` (batch, shared heads, positions, size).

    If the cache is in ``past``'s own memory, only the new part is written; the rest behind it
    stays.
    """
    is_shared = past is not None and np.may_share_memory(past, cache)
    for index, start in enumerate(lengths.starts):
        poll_run()
        stop = start + lengths.new
        if past is not None and start and not is_shared:
            cache[index, :, :start] = past[index, :, :start]
        cache[index, :, start:stop] = new[index].swapaxes(0, 1)
        if not is_shared:
            cache[index, :, stop:] = 0


def resident_count(total: int, capacity: int, window: int) -> int:
    """Return the number of ``total`` positions that a sliding cache of ``capacity`` holds.

    A full cache drops all but the last ``window`` positions at once, so the number is a function of
    ``total`` alone.
    """
    if total <= capacity:
        return total
    dropped = capacity - window + 1
    return total - dropped * -(-(total - capacity) // dropped)


def slide_cache(cache: Tensor, past: Tensor, new: Tensor, total: int, window: int) -> Tensor:
    """Move a cache on by a sequence's last positions; return those that its queries look at.

    Args:
        cache: (shared heads, positions, size), perhaps ``past``'s own memory. Gets
            :func:`resident_count` positions, the newest last, and zeros.
        past: past cache of the same shape.
        new: (length, shared heads, size).
        total: number of positions including the new ones.
        window: number of positions that a query looks at.

    Returns:
        (shared heads, count, size), the new positions last: a view of the cache if that still has
        all positions that are looked at.
    """
    length, capacity = new.shape[0], cache.shape[1]
    old_count, new_count = (
        resident_count(count, capacity, window) for count in (total - length, total)
    )
    is_shared = np.may_share_memory(past, cache)
    if old_count + length <= capacity:
        if not is_shared:
            cache[:, :old_count] = past[:, :old_count]
        cache[:, old_count:new_count] = new.swapaxes(0, 1)
    elif length == 1:
        cache[:, : new_count - 1] = past[:, old_count - new_count + 1 : old_count]
        cache[:, new_count - 1] = new[0]
    else:
        parts = past[:, :old_count], new.swapaxes(0, 1)
        staged = np.concatenate(parts, axis=1, dtype=cache.dtype, casting="unsafe")
        cache[:, :new_count] = staged[:, -new_count:]
        cache[:, new_count:] = 0
        return staged
    if not is_shared:
        cache[:, new_count:] = 0
    return cache[:, :new_count]
