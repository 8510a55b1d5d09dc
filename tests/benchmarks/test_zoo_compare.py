"""The zoo's comparison with onnxruntime: what is agreement, and how disagreement shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from benchmarks.zoo import compare

NAN, INF = float("nan"), float("inf")
TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([NAN, 1.0], [NAN, 1.0], 0.0),
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([INF, 1.0], [2.0, 1.0], INF),
        ([], [], 0.0),
    ],
)
def test_differences_are_relative_to_the_largest_number(
    ours: list[float], theirs: list[float], error: float
) -> None:
    assert compare.largest_error([np.array(ours)], [np.array(theirs)]) == error


@pytest.mark.parametrize(
    ("ours", "theirs", "whose"), [([NAN, 1], [0, 1], "ours"), ([0, 1], [NAN, NAN], "theirs")]
)
def test_nan_on_one_side_alone_is_an_error(
    ours: list[float], theirs: list[float], whose: str
) -> None:
    with pytest.raises(
        ValueError, match=rf"of 2 elements are NaN in one output and not in the other \({whose}\)"
    ):
        compare.largest_error([np.array(ours)], [np.array(theirs)])


class _Other:
    """A session that gives what it is told to."""

    def __init__(self, output: list[float]) -> None:
        self._output = np.array(output, np.float32)

    def run(self, _names: None, _feeds: dict[str, Any]) -> list[Any]:
        return [self._output]


@pytest.mark.parametrize(("output", "code"), [([-1, -2], 0), ([-1, NAN], 1)])
def test_a_disagreement_is_printed_and_ends_in_exit_code_1(
    output: list[float],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "negative.onnx")
    np.savez(tmp_path / "negative.npz", x=np.array([1, 2], np.float32))
    monkeypatch.setattr(compare, "open_theirs", lambda _path, _threads: _Other(output))

    assert compare.main([str(tmp_path), "--budget", "0.001"]) == code

    assert ("NaN in one output and not in the other" in capsys.readouterr().out) == bool(code)
