"""Memory of feeds that no surrounding graph holds, as a Loop carries them between iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ortpkg.runtime.engine.execution_frame import LEAST_COUNTED_NBYTES
from ortpkg.runtime.engine.kept_parts import ValueParts
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Value


@contextmanager
def counted_feeds(
    feeds: Sequence[Value], values: Sequence[Value], control: RunControl
) -> Iterator[None]:
    """Count ``feeds`` as values of the run for a while; those among ``values`` count already.

    Raises:
        LimitExceededError: they pass the memory limit.
    """
    large = [feed for feed in feeds if _nbytes(feed) or isinstance(feed, list)]
    if not large:
        yield
        return
    held = set(map(id, values))
    carried = [feed for feed in large if id(feed) not in held]
    nbytes = sum(map(_nbytes, carried))
    control.charge(nbytes)
    parts = ValueParts(control)
    try:
        if control.caller_limit_nbytes is not None:
            for index, feed in enumerate(carried):
                parts.keep(index, feed)
        yield
    finally:
        parts.close()
        control.discharge(nbytes)


def _nbytes(value: Value) -> int:
    """Return the size of a tensor that is large enough to be counted; else 0."""
    if not isinstance(value, np.ndarray | DeviceTensor):
        return 0
    return value.nbytes if value.nbytes >= LEAST_COUNTED_NBYTES else 0
