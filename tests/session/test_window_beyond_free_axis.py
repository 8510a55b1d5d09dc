"""Windows that exceed a free axis, in sessions that name no provider: no element, whoever computes."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.session.conftest import model_of

_WEIGHTS = ", ".join(["1"] * 18)
_NODES = {
    "MaxPool": "y = MaxPool <kernel_shape = [3, 3]> (x)",
    "MaxPool, dilated": "y = MaxPool <kernel_shape = [2, 2], dilations = [2, 2]> (x)",
    "AveragePool": "y = AveragePool <kernel_shape = [3, 3]> (x)",
    "LpPool": "y = LpPool <kernel_shape = [3, 3]> (x)",
    "Conv": "y = Conv(x, w)",
}


@pytest.mark.parametrize("name", _NODES)
def test_a_window_beyond_a_free_axis_leaves_nothing_and_the_session_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORTPKG_PROVIDERS", raising=False)
    data = model_of(
        f"""g (float[1,2,h,w0] x) => (float[1,c,a,b] y) <float[1,2,3,3] w = {{{_WEIGHTS}}}>
        {{ {_NODES[name]} }}"""
    ).SerializeToString()
    fits = np.random.default_rng(3).standard_normal((1, 2, 4, 5)).astype(np.float32)
    channels = 1 if name == "Conv" else 2

    with (
        InferenceSession(data) as session,
        InferenceSession(data, providers=[CPU_EP]) as engine,
    ):
        (empty,) = session.run(None, {"x": fits[:, :, :2]})
        (both,) = session.run(None, {"x": fits[:, :, :2, :2]})
        (full,) = session.run(None, {"x": fits})
        (expected,) = engine.run(None, {"x": fits})

    assert (empty.shape, both.shape) == ((1, channels, 0, 3), (1, channels, 0, 0))
    np.testing.assert_allclose(full, expected, rtol=1e-5, atol=1e-6)
