"""Runs with adapters: their tensors stand in for inputs that have defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidFeedError, UsageError
from tests.session.conftest import session_of

_MODEL = "g (float[2] x, float[2] a = {1, 2}) => (float[2] y) { y = Mul(x, a) }"
_ONES = {"x": np.ones(2, np.float32)}


def running_with(path: Path, **tensors: Any) -> ortpkg.RunOptions:
    """Run options with an adapter of these tensors."""
    made = ortpkg.AdapterFormat()
    made.set_parameters({name: ortpkg.OrtValue(array) for name, array in tensors.items()})
    made.export_adapter(path)
    adapter = ortpkg.LoraAdapter()
    adapter.Load(path)
    options = ortpkg.RunOptions()
    options.add_active_adapter(adapter)
    return options


def test_an_adapter_holds_for_the_runs_that_name_it(tmp_path: Path) -> None:
    options = running_with(tmp_path / "a", a=np.array([10, 20], np.float32))
    with session_of(_MODEL) as session:
        assert session.run(None, _ONES, options)[0].tolist() == [10, 20]
        assert session.run(None, _ONES)[0].tolist() == [1, 2]


def test_what_is_fed_besides_comes_before_the_adapter(tmp_path: Path) -> None:
    options = running_with(tmp_path / "a", a=np.array([10, 20], np.float32))
    with session_of(_MODEL) as session:
        fed = {**_ONES, "a": np.array([3, 4], np.float32)}
        assert session.run(None, fed, options)[0].tolist() == [3, 4]


def test_an_adapter_of_another_model_is_an_error(tmp_path: Path) -> None:
    with session_of(_MODEL) as session:
        with pytest.raises(InvalidFeedError, match="'b'"):
            session.run(None, _ONES, running_with(tmp_path / "a", b=np.zeros(2, np.float32)))
        with pytest.raises(InvalidFeedError, match="'a'"):
            session.run(None, _ONES, running_with(tmp_path / "a", a=np.zeros(3, np.float32)))


def test_only_adapters_are_added() -> None:
    with pytest.raises(TypeError, match="LoraAdapter"):
        ortpkg.RunOptions().add_active_adapter("a.onnx_adapter")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.float32(1), np.array(["a"], object)], ids=["scalar", "texts"])
def test_an_adapter_has_tensors_of_numbers_with_dimensions(value: Any) -> None:
    with pytest.raises(UsageError, match="parameter 'a' is a tensor"):
        ortpkg.AdapterFormat().set_parameters({"a": ortpkg.OrtValue(np.asarray(value))})
