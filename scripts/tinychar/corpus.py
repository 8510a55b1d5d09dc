"""The text that the character model learns from, and its characters as numbers.

``text.txt`` is the beginning of Shakespeare's plays as a widely used plain-text edition has them;
it is in the public domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

TEXT = Path(__file__).with_name("text.txt")
#: The last part of the text is held out: the loss on it is what the model is judged by.
HELD_OUT_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The text as numbers.

    Attributes:
        vocabulary: character of each number, in code-point order.
        training, held_out: int64 numbers of the characters.
    """

    vocabulary: tuple[str, ...]
    training: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """The numbers of the text's characters, int64 of shape (characters,)."""
        numbers = {character: number for number, character in enumerate(self.vocabulary)}
        return np.array([numbers[character] for character in text], dtype=np.int64)


def load_corpus() -> Corpus:
    text = TEXT.read_text(encoding="ascii")
    vocabulary = tuple(sorted(set(text)))
    numbers = {character: number for number, character in enumerate(vocabulary)}
    tokens = np.array([numbers[character] for character in text], dtype=np.int64)
    cut = round(len(tokens) * (1 - HELD_OUT_SHARE))
    return Corpus(vocabulary=vocabulary, training=tokens[:cut], held_out=tokens[cut:])
