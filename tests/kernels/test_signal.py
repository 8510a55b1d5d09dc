"""Windows, the mel filter bank and Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize(("size", "expected"), [(0, []), (1, [1.0])])
def test_smallest_symmetric_windows(op_type: str, size: int, expected: list[float]) -> None:
    assert run_op(op_type, np.array(size), periodic=0).tolist() == expected


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_window_of_untrusted_size_is_refused(op_type: str) -> None:
    with pytest.raises(LimitExceededError):
        run_op(op_type, np.array(10**12))
    with pytest.raises(ValueError, match="a window's size is not negative, but this one is -1"):
        run_op(op_type, np.array(-1))


def mel(bins: int, length: int, *, high: float = 4000.0) -> Tensor:
    edges = (np.array(0.0, np.float32), np.array(high, np.float32))
    return np.asarray(
        run_op("MelWeightMatrix", np.array(bins), np.array(length), np.array(8000), *edges)
    )


def test_mel_filters_beyond_the_spectrogram_are_refused() -> None:
    with pytest.raises(ValueError, match="the mel filters reach to bin"):
        mel(10, 16, high=40_000.0)


def test_mel_matrix_of_untrusted_size_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        mel(10**6, 10**6)


def test_transform_of_untrusted_length_is_refused() -> None:
    x = np.ones((1, 4, 1), np.float32)
    with pytest.raises(LimitExceededError):
        run_op("DFT", x, np.array(10**12), np.array(1))
    with pytest.raises(ValueError, match="a DFT has a positive length, not 0"):
        run_op("DFT", x, np.array(0), np.array(1))


def test_transform_along_the_parts_of_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="the last axis holds real and imaginary parts"):
        run_op("DFT", np.ones((1, 4, 2), np.float32), None, np.array(-1))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("size", [7, 8])
def test_inverse_undoes_the_transform(parts: int, size: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, size, parts))
    back = run_op("DFT", run_op("DFT", x, None, np.array(1)), None, np.array(1), inverse=1)
    np.testing.assert_allclose(back[..., :parts], x, atol=1e-12)


def test_inverse_of_half_a_spectrum_is_real() -> None:
    x = np.random.default_rng(0).normal(size=(1, 9, 1))
    half = run_op("DFT", x, None, np.array(1), onesided=1)
    back = run_op("DFT", half, np.array(9), np.array(1), onesided=1, inverse=1)
    assert back.shape == (1, 9, 1)
    np.testing.assert_allclose(back, x, atol=1e-12)


def test_frames_that_do_not_fit_the_signal_are_refused() -> None:
    signal = np.zeros((1, 10, 1), np.float32)
    with pytest.raises(
        ValueError, match="frames of 20 samples every 4, with a window of 10, do not fit 10 samples"
    ):
        run_op("STFT", signal, np.array(4), None, np.array(20))
    with pytest.raises(ValueError, match="frames of 4 samples every 0"):
        run_op("STFT", signal, np.array(0), None, np.array(4))
