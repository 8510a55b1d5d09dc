"""What attention with a cache begins with: attributes, lengths, heads, angles, the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ortpkg.kernels.axes import wrapped_indices
from ortpkg.kernels.element_types import compute_dtype
from ortpkg.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.polling import poll_run


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadAttributes:
    """What a node's attributes say of its heads.

    Attributes:
        count: heads of the queries.
        shared: heads of keys and values, each for as many of the queries'.
        scale: of the scores; 0 for what the size of a head gives.
        do_rotary, interleaved: whether queries and keys are turned by their positions, and how.
    """

    count: int
    shared: int
    scale: float
    do_rotary: bool
    interleaved: bool

    @classmethod
    def of(cls, info: OpKernelInfo) -> HeadAttributes:
        """ValueError where the heads cannot be shared."""
        found = cls(
            count=int(info.attribute("num_heads", 0)),
            shared=int(info.attribute("kv_num_heads", 0)),
            scale=float(info.attribute("scale", 0.0)),
            do_rotary=bool(info.attribute("do_rotary", 0)),
            interleaved=bool(info.attribute("rotary_interleaved", 0)),
        )
        if found.count < 1 or found.shared < 1 or found.count % found.shared:
            raise ValueError(
                f"num_heads={found.count} is no multiple of kv_num_heads={found.shared}"
            )
        return found

    def scale_of(self, size: int) -> float:
        """The factor of the scores of heads of ``size``."""
        return self.scale or 1 / math.sqrt(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How far each sequence reaches.

    Attributes:
        new: queries per sequence.
        total: the longest sequence, these included.
        present: places in the present cache.
        starts: per sequence, the position of its first query.
        stops: per sequence, how many keys it has.
        is_first_prompt: whether there is no past.
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
        """Lays queries and cache places out.

        Args:
            batch, new: sequences, and new queries of each.
            past: places in the past cache.
            seqlens: per sequence, the position of its last query.
            total_length: the longest sequence.
            is_windowed: whether the cache keeps no more than the places that it has.

        Raises ValueError where they do not fit each other.
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
    """Query, key and value as views (batch, length, heads, size)."""
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
    """Places in the past cache, 0 where there is none.

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
    """Both caches' rows for each token, (batch or 1, length, n), as they are computed in."""
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
    places = wrapped_indices(positions, cosines.shape[0], context.check_allocation)
    return cosines[places].astype(wide, copy=False), sines[places].astype(wide, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedKeys:
    """What the queries of one sequence may attend to.

    Attributes:
        keys, values: (shared heads, count, size).
        position: of the first of them.
    """

    keys: Tensor
    values: Tensor
    position: int = 0


def fill_cache(cache: Tensor, past: Tensor | None, new: Tensor, lengths: Lengths) -> None:
    """Writes past, new and zeros to ``cache`` (batch, shared heads, places, size).

    Where that is ``past``'s own memory, only what is new is written: what lies behind it stays.
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
    """How many of ``total`` positions, of the last ``window``, ``capacity`` places keep.

    When it is full it drops so many at once that only the window is left, so it is a function of
    ``total`` alone.
    """
    if total <= capacity:
        return total
    dropped = capacity - window + 1
    return total - dropped * -(-(total - capacity) // dropped)


def slide_cache(cache: Tensor, past: Tensor, new: Tensor, total: int, window: int) -> Tensor:
    """Moves a cache on by a sequence's last positions; gives those that its queries look at.

    Args:
        cache: (shared heads, places, size), perhaps ``past``'s own memory. Gets
            :func:`resident_count` positions, the newest last, and zeros.
        past: of the same shape, as the step before left it.
        new: (length, shared heads, size).
        total: positions up to and with the new ones.
        window: how many positions a query looks at.

    Returns (shared heads, count, size), the new positions last: of the cache where it still has all
        that is looked at.
    """
    length, capacity = new.shape[0], cache.shape[1]
    held, kept = (resident_count(count, capacity, window) for count in (total - length, total))
    is_shared = np.may_share_memory(past, cache)
    if held + length <= capacity:
        if not is_shared:
            cache[:, :held] = past[:, :held]
        cache[:, held:kept] = new.swapaxes(0, 1)
    elif length == 1:
        cache[:, : kept - 1] = past[:, held - kept + 1 : held]
        cache[:, kept - 1] = new[0]
    else:
        parts = past[:, :held], new.swapaxes(0, 1)
        staged = np.concatenate(parts, axis=1, dtype=cache.dtype, casting="unsafe")
        cache[:, :kept] = staged[:, -kept:]
        cache[:, kept:] = 0
        return staged
    if not is_shared:
        cache[:, kept:] = 0
    return cache[:, :kept]
