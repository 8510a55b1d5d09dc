"""Offsets of arena buffers, for the lengths that they have in a run.

A layout serves all lengths up to its own. If one was made and does not serve, as when a sequence
grows by a token in each run, the next has spare room in each buffer, so that it serves for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.program import ALIGNMENT, ArenaBuffer
from ortpkg.foundations.buffer_layout import Buffer, lay_out

Lengths = npt.NDArray[np.int64]
_MOST_LAYOUTS = 8
#: A layout of more than this many times the bytes of all buffers is not reused.
_MOST_WASTE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaLayout:
    """Offsets of buffers in one block.

    Attributes:
        nbytes: size of the block.
        offsets: offset of each buffer.
        room: largest length of each buffer.
    """

    nbytes: int
    offsets: Lengths
    room: Lengths


class LayoutCache:
    """Cache of the layouts of one program."""

    def __init__(self, buffers: Sequence[ArenaBuffer]) -> None:
        """Create an empty cache for these buffers; each call passes their lengths."""
        self._spans = [(buffer.first_step, buffer.last_step) for buffer in buffers]
        self._made: tuple[ArenaLayout, ...] = ()

    def layout_for(self, lengths: Lengths) -> ArenaLayout:
        """Return a layout in which each buffer has at least its length."""
        wanted = int(lengths.sum())
        for layout in self._made:
            if layout.nbytes <= _MOST_WASTE * wanted and bool((lengths <= layout.room).all()):
                return layout
        room = with_room(lengths) if self._made else lengths
        made = self._lay_out(room)
        self._made = (made, *self._made[: _MOST_LAYOUTS - 1])
        return made

    def _lay_out(self, room: Lengths) -> ArenaLayout:
        buffers = [
            Buffer(owner, nbytes, (span,))
            for owner, (nbytes, span) in enumerate(zip(room.tolist(), self._spans, strict=True))
        ]
        pattern = lay_out(buffers, ALIGNMENT)
        offsets = np.array([pattern.offsets[owner] for owner in range(len(buffers))], np.int64)
        return ArenaLayout(nbytes=pattern.peak_size, offsets=offsets, room=room)


def with_room(lengths: Lengths) -> Lengths:
    """Return each length rounded up to three significant bits, at most a quarter more."""
    step = np.maximum(lengths, 8) >> 3
    for shift in (1, 2, 4, 8, 16, 32):  # reduces it to its largest power of 2
        step |= step >> shift
    step -= step >> 1
    rounded: Lengths = -(-lengths // step) * step
    return rounded
