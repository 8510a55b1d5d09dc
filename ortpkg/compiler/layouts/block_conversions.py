"""Maps that move a tensor between plain and blocked channels."""

from __future__ import annotations

from collections.abc import Iterator

from ortpkg.compiler.tensor_ir.elements import Coordinate, Number, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.graph.shapes.expressions import Size


def channel_count(tensor: Tensor) -> int | None:
    """Return the number of channels of a plain tensor; None if it is a formula or absent."""
    count = tensor.shape[1] if len(tensor.shape) > 1 else None
    return count if isinstance(count, int) else None


def blocked_tensor(plain: Tensor, lanes: int) -> Tensor:
    """Return a blocked tensor with the channels of a plain one."""
    channels = channel_count(plain)
    assert channels is not None
    shape = (plain.shape[0], -(-channels // lanes), *plain.shape[2:], lanes)
    return Tensor(f"{plain.name} in blocks", plain.scalar, shape)


def channel_coordinate(rank: int, lanes: int) -> Coordinate:
    """Return the channel of a block's lane as a coordinate over a blocked tensor's axes."""
    return Coordinate(((1, lanes), (rank, 1)))


def to_blocks(plain: Tensor, blocked: Tensor) -> Iterator[Map]:
    """Yield maps that fill the blocked tensor, with zeros in the unused lanes."""
    yield from _moves(plain, blocked, is_blocking=True)
    lanes, channels = _lanes_of(blocked), channel_count(plain)
    assert channels is not None
    rest = channels % lanes
    if not rest:
        return
    spatial = plain.shape[2:]
    lane = len(spatial) + 1
    positions = tuple(along(1 + axis) for axis in range(len(spatial)))
    yield Map(
        output=blocked,
        axes=(plain.shape[0], *spatial, lanes - rest),
        value=Number(0.0 if plain.scalar.is_float else 0, plain.scalar),
        coordinates=(
            along(0),
            Coordinate((), channels // lanes),
            *positions,
            Coordinate(((lane, 1),), rest),
        ),
    )


def from_blocks(blocked: Tensor, plain: Tensor) -> Iterator[Map]:
    """Yield maps that fill the plain tensor."""
    yield from _moves(plain, blocked, is_blocking=False)


def _moves(plain: Tensor, blocked: Tensor, *, is_blocking: bool) -> Iterator[Map]:
    """Yield the move of whole blocks, then that of a last block which channels do not fill."""
    lanes, channels, spatial = _lanes_of(blocked), channel_count(plain), plain.shape[2:]
    assert channels is not None
    rank = len(plain.shape)
    whole, rest = divmod(channels, lanes)
    if whole:
        inner = tuple(along(axis) for axis in range(2, rank))
        in_plain = (along(0), channel_coordinate(rank, lanes), *inner)
        in_blocks = tuple(along(axis) for axis in range(rank + 1))
        axes: tuple[Size, ...] = (plain.shape[0], whole, *spatial, lanes)
        yield _move((plain, in_plain), (blocked, in_blocks), axes, is_blocking=is_blocking)
    if rest:
        lane = rank - 1
        inner = tuple(along(axis) for axis in range(1, rank - 1))
        in_plain = (along(0), Coordinate(((lane, 1),), whole * lanes), *inner)
        in_blocks = (along(0), Coordinate((), whole), *inner, along(lane))
        axes = (plain.shape[0], *spatial, rest)
        yield _move((plain, in_plain), (blocked, in_blocks), axes, is_blocking=is_blocking)


def _move(
    plain: tuple[Tensor, tuple[Coordinate, ...]],
    blocked: tuple[Tensor, tuple[Coordinate, ...]],
    axes: tuple[Size, ...],
    *,
    is_blocking: bool,
) -> Map:
    source, target = (plain, blocked) if is_blocking else (blocked, plain)
    return Map(output=target[0], axes=axes, value=Read(*source), coordinates=target[1])


def _lanes_of(blocked: Tensor) -> int:
    lanes = blocked.shape[-1]
    assert isinstance(lanes, int)
    return lanes
