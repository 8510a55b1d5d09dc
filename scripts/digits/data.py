"""The scans: scikit-learn's 1,797 handwritten digits, a fixed fifth of them held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

GREATEST_GREY_LEVEL = 16
"""A pixel counts the inked points of a 4x4 block: 0 (paper) to 16 (ink)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scans:
    """``images``: float32 [n, 1, 8, 8] with grey levels 0 to 16.

    ``labels``: int64 [n] with the digits 0 to 9.
    """

    images: FloatArray
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: IntArray) -> Scans:
        return Scans(images=self.images[indices], labels=self.labels[indices])


def load_scans() -> Scans:
    """Reads all scans in the order in which scikit-learn ships them."""
    bunch = load_digits()
    return Scans(
        images=np.ascontiguousarray(bunch.images[:, np.newaxis], dtype=np.float32),
        labels=np.asarray(bunch.target, dtype=np.int64),
    )


def split_scans(scans: Scans) -> tuple[Scans, Scans]:
    """Splits into (training, held out).

    The held-out part is every fifth scan of the scans sorted by digit.

    Stratified by construction and free of random numbers, so that no library's generator can change
    it. Both parts keep the original order. A writer contributed several digits, so writers occur in
    both parts.
    """
    by_digit = np.argsort(scans.labels, kind="stable")
    is_held_out = np.zeros(len(scans), dtype=bool)
    is_held_out[by_digit[::5]] = True
    return scans.subset(np.flatnonzero(~is_held_out)), scans.subset(np.flatnonzero(is_held_out))
