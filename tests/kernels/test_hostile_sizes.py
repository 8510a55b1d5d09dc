"""Kernels on sizes that a stranger chooses: memory is asked for before it is taken, and of nothing
comes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ortpkg.errors import LimitExceededError
from ortpkg.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

LIMIT_NBYTES = 8 << 20
#: Operator → inputs of which it takes many times the limit, and attributes.
LARGE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "DFT": ((np.ones((1, 99_991, 1), np.float32),), {}),
    "Pad": ((np.ones(3, np.float32), np.array([400_000, 400_000])), {"mode": "reflect"}),
    "SplitToSequence": ((np.ones(100_000, np.float32),), {}),
}
TRILLION = 1 << 40


def none(*shape: int) -> Tensor:
    """An array without elements, however many rows it has."""
    return np.empty(shape, np.float32)


#: Operator → inputs without elements, and the shape of what it makes.
EMPTY: dict[str, tuple[Callable[[], tuple[Any, ...]], tuple[int, ...]]] = {
    "MatMul": (lambda: (none(TRILLION, 0, 3), none(3, 4)), (TRILLION, 0, 4)),
    "BatchNormalization": (lambda: (none(TRILLION, 0), *(none(0),) * 4), (TRILLION, 0)),
    "ConvTranspose": (
        lambda: (np.broadcast_to(np.float32(1), (TRILLION, 2, 3)), none(2, 0, 3)),
        (TRILLION, 0, 5),
    ),
}


@pytest.mark.parametrize("op_type", LARGE)
def test_what_a_kernel_takes_beside_its_output_is_asked_for(op_type: str) -> None:
    inputs, attributes = LARGE[op_type]
    with pytest.raises(LimitExceededError) as caught:
        run_op(op_type, *inputs, limit_nbytes=LIMIT_NBYTES, **attributes)
    assert caught.value.limit == "memory"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("op_type", EMPTY)
def test_rows_without_elements_take_no_time(op_type: str) -> None:
    inputs, shape = EMPTY[op_type]
    assert run_op(op_type, *inputs()).shape == shape
