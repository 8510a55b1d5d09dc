"""NGramRepeatBlock of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RNG = np.random.default_rng(2)


def scores(batch: int, vocabulary: int) -> Any:
    return RNG.standard_normal((batch, vocabulary)).astype(np.float32)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 12), (2, 60), (4, 2), (2, 0)])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tokens_that_would_repeat_an_ngram_score_minus_infinity(
    size: int, batch: int, length: int, in_place: bool
) -> None:
    ids, values = RNG.integers(0, 4, (batch, length)), scores(batch, 6)
    found = run_op(
        "NGramRepeatBlock", ids, values, domain="com.microsoft", ngram_size=size, in_place=in_place
    )
    np.testing.assert_array_equal(
        found, run_on_onnxruntime("NGramRepeatBlock", ids, values, ngram_size=size)
    )


@pytest.mark.parametrize(
    ("ids", "values", "size", "message"),
    [
        (np.zeros((2, 3), np.int64), scores(1, 4), 2, "do not fit scores"),
        (np.zeros(3, np.int64), scores(1, 4), 2, "do not fit scores"),
        (np.full((1, 3), 9), scores(1, 4), 2, "token 9 is none of the vocabulary of 4"),
        (np.full((1, 3), -1), scores(1, 4), 2, "token -1 is none of the vocabulary of 4"),
        (np.zeros((1, 3), np.int64), scores(1, 4), 0, "ngram_size is 1 or more, not 0"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(ids: Any, values: Any, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_op("NGramRepeatBlock", ids, values, domain="com.microsoft", ngram_size=size)
