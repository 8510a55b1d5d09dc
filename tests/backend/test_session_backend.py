"""A session as a backend of the onnx package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ortpkg
from ortpkg import backend
from ortpkg.foundations.errors import UsageError
from tests.session.conftest import model_of

_ADD = "g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }"
_ONES = np.ones(2, np.float32)


def test_prepares_paths_bytes_messages_and_sessions(tmp_path: Path) -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    session = ortpkg.InferenceSession(model.SerializeToString())
    for each in (
        tmp_path / "m.onnx",
        str(tmp_path / "m.onnx"),
        model.SerializeToString(),
        model,
        session,
    ):
        assert backend.prepare(each).run(_ONES)[0].tolist() == [-1, -1]


def test_inputs_by_position_by_name_or_alone() -> None:
    prepared = backend.prepare(model_of(_ADD), "CPU", graph_optimization_level=0)
    assert prepared.run([_ONES, _ONES])[0].tolist() == [2, 2]
    assert prepared.run({"a": _ONES, "b": 2 * _ONES})[0].tolist() == [3, 3]
    with pytest.raises(UsageError, match="has 2 inputs; give them as a list"):
        prepared.run(_ONES)
    with pytest.raises(UsageError, match="has 2 inputs, not 1"):
        prepared.run([_ONES])


def test_runs_at_once() -> None:
    assert backend.run_model(model_of(_ADD), [_ONES, _ONES], "CPU")[0].tolist() == [2, 2]


def test_only_the_cpu_is_supported() -> None:
    assert backend.supports_device("CPU:0")
    assert backend.is_compatible(model_of(_ADD))
    assert not backend.is_compatible(model_of(_ADD), "CUDA")
    with pytest.raises(UsageError, match="device 'CUDA' is not supported"):
        backend.prepare(model_of(_ADD), "CUDA")


def test_unknown_options_are_refused() -> None:
    with pytest.raises(UsageError, match="SessionOptions has no attribute 'graph_level'"):
        backend.prepare(model_of(_ADD), graph_level=1)
    with pytest.raises(UsageError, match="RunOptions has no attribute"):
        backend.prepare(model_of(_ADD)).run([_ONES, _ONES], nothing=1)
