"""Transforms that end where their run ends, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels import interruptible_fft
from ortpkg.runtime.kernels.interruptible_fft import transformed
from tests.kernels.node_runner import RunContext, run_op


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible_fft, "TRANSFORMED_AT_ONCE", 16)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("size", [1, 5, 16, 17, 64, 101, 128, 225, 2 * 101, 1009])
def test_lines_of_every_length_are_transformed_as_numpy_does(size: int, inverse: bool) -> None:
    numbers = np.random.default_rng(size)
    for length in (size, max(size - 3, 1), size + 3):
        lines = numbers.standard_normal((3, length)) + 1j * numbers.standard_normal((3, length))
        made = transformed(RunContext(), lines, size, inverse=inverse)

        expected = (np.fft.ifft if inverse else np.fft.fft)(lines, n=size)
        np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 50, 101])
@pytest.mark.parametrize("given", [1, 4, 26, 60])
def test_half_a_spectrum_is_transformed_as_numpy_does(size: int, given: int) -> None:
    half = np.random.default_rng(0).standard_normal((2, given, 3, 2)).astype(np.float32)

    made = run_op("DFT", half, np.array(size), np.array(1), inverse=1, onesided=1)

    expected = np.fft.irfft(half[..., 0] + 1j * half[..., 1], n=size, axis=1)[..., None]
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


class _EndsSoon(RunContext):
    """A run whose time is up after some questions."""

    left = 10

    def check_cancelled(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LimitExceededError("the run passed its time limit", limit="time")


@pytest.mark.parametrize("size", [1009, 1024])
def test_a_transform_ends_in_the_middle(size: int) -> None:
    with pytest.raises(LimitExceededError, match="the run passed its time limit"):
        transformed(_EndsSoon(), np.ones((1, size)), size)
