"""Session options that a model states itself, with ORT_LOAD_CONFIG_FROM_MODEL=1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import ortpkg
from ortpkg.foundations.errors import InvalidSessionOptionError
from tests.session.conftest import model_of

LIBRARIES = [pytest.param(ortpkg, id="ortpkg"), pytest.param(onnxruntime, id="onnxruntime")]
CPU = ["CPUExecutionProvider"]
ALL = {
    "inter_op_num_threads": 5,
    "intra_op_num_threads": 2,
    "execution_mode": 1,
    "graph_optimization_level": 3,
    "enable_profiling": 1,
    "unknown": "x",
}


def model_with(config: Any) -> bytes:
    model = model_of("g (float[2] x) => (float[2] y) { y = Abs(x) }")
    text = config if isinstance(config, str) else json.dumps(config)
    model.metadata_props.add(key="ort_config", value=text)
    return bytes(model.SerializeToString())


def options_of(session: Any) -> list[int]:
    options = session.get_session_options()
    return [int(getattr(options, name)) for name in ALL if name != "unknown"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("ort", LIBRARIES)
def test_what_the_model_states_comes_before_the_options_of_the_caller(ort: Any) -> None:
    given = ort.SessionOptions()
    given.intra_op_num_threads = 3
    session = ort.InferenceSession(model_with({"session_options": ALL}), given, providers=CPU)
    assert options_of(session) == [5, 2, 1, 3, 1]
    assert given.intra_op_num_threads == 3


@pytest.mark.parametrize("ort", LIBRARIES)
def test_it_is_not_read_unless_the_user_asks(ort: Any) -> None:
    assert options_of(
        ort.InferenceSession(model_with({"session_options": ALL}), providers=CPU)
    ) == [0, 0, 0, 99, 0]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "config", [{}, [1], {"session_options": 3}, {"session_options": {}, "x": 1}]
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_what_says_nothing_changes_nothing(ort: Any, config: Any) -> None:
    assert options_of(ort.InferenceSession(model_with(config), providers=CPU)) == [0, 0, 0, 99, 0]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "config",
    [
        "no json",
        *({"session_options": {"intra_op_num_threads": value}} for value in ("2", -3, 2.5)),
        {"session_options": {"execution_mode": 7}},
        {"session_options": {"graph_optimization_level": 5}},
        *({"session_options": {"enable_profiling": value}} for value in (2, True)),
    ],
)
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_wrong_value_is_an_error(ort: Any, config: Any) -> None:
    with pytest.raises(RuntimeError):
        ort.InferenceSession(model_with(config), providers=CPU, enable_fallback=0)


@pytest.mark.usefixtures("asked")
def test_the_error_names_what_is_wrong_and_who_asks() -> None:
    with pytest.raises(
        InvalidSessionOptionError,
        match=r"'ort_config' gives execution_mode the value '7'; ORT_LOAD_",
    ):
        ortpkg.InferenceSession(
            model_with({"session_options": {"execution_mode": 7}}), providers=CPU
        )
    with pytest.raises(InvalidSessionOptionError, match="no JSON of at most 65536 characters"):
        ortpkg.InferenceSession(model_with("[" * 70_000), providers=CPU)


@pytest.mark.usefixtures("asked")
def test_the_text_may_be_as_long_as_the_error_says_and_no_longer() -> None:
    text = json.dumps({"session_options": {"intra_op_num_threads": 2}})
    session = ortpkg.InferenceSession(model_with(text.ljust(65_536)), providers=CPU)
    assert session.get_session_options().intra_op_num_threads == 2
    with pytest.raises(InvalidSessionOptionError, match="no JSON of at most 65536 characters"):
        ortpkg.InferenceSession(model_with(text.ljust(65_537)), providers=CPU)


@pytest.mark.usefixtures("asked")
def test_models_of_strangers_are_not_asked() -> None:
    with ortpkg.InferenceSession(
        model_with({"session_options": ALL}), providers=CPU, is_confined=True
    ) as session:
        assert options_of(session) == [0, 0, 0, 99, 0]
