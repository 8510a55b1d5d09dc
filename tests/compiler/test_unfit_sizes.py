"""Sizes that do not fit end a run of machine code, or are left to the numpy engine with a warning."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import RunError
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def _ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def _session(text: str, **entries: str) -> InferenceSession:
    options = SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(f"ortpkg.{key}", value)
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    session = InferenceSession(model, options, providers=["llvm", "cpu"])
    used = [each.ep_name for each in session.get_placement().entries if each.node_count]
    assert used == [LLVM_EP]
    return session


def _whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


_TO_SIZES = """{ s = Shape<start = 0, end = 1>(x) n = Shape(x) m = Shape(j) k = Add(m, four)
    t = Concat<axis = 0>(one, k, n) y = Reshape(x, t) }"""
_RESHAPE = f"""g (float[n] x, float[j] j) => (float[a, b, c] y)
    <int64[1] one = {{1}}, int64[1] four = {{-4}}> {_TO_SIZES}"""
_LSTM = """g (float[s, b, 3] x, float[1, 8, 3] w, float[1, 8, 2] r, int32[b] l)
    => (float[s, 1, b, 2] y) { y = LSTM<hidden_size = 2>(x, w, r, , l) }"""


@pytest.mark.parametrize(
    ("text", "fitting", "unfit"),
    [
        ("""g (float[n] x) => (float[2] y, float[3] z) <int64[2] s = {2, 3}>
         { y, z = Split<axis = 0>(x, s) }""", {"x": _ones(5)}, {"x": _ones(100)}),
        (_RESHAPE, {"x": _ones(7), "j": _ones(5)}, {"x": _ones(7), "j": _ones(6)}),
        (_RESHAPE, {"x": _ones(7), "j": _ones(5)}, {"x": _ones(7), "j": _ones(2)}),
        ("""g (int64[n] i, float[v] v) => (float[n, 3] y) <int64 d = {3}>
         { y = OneHot(i, d, v) }""", {"i": _whole(1, 2), "v": _ones(2)},
         {"i": _whole(1, 2), "v": _ones(3)}),
        ("g (float[n, m] x) => (float[n] y) <int64[1] a = {1}> { y = Squeeze(x, a) }",
         {"x": _ones(3, 1)}, {"x": _ones(0, 2)}),
        ("""g (float[n, m] x, int64[p, q] i) => (float[p, q] y)
         { y = GatherElements<axis = 0>(x, i) }""",
         {"x": _ones(2, 3), "i": np.zeros((1, 3), np.int64)},
         {"x": _ones(2, 3), "i": np.zeros((0, 4), np.int64)}),
        ("""g (float[4, m] x, float[m, m] z) => (float[a, b, c] y) <int64[1] two = {2}>
         { s = Shape(z) t = Concat<axis = 0>(two, s) y = Expand(x, t) }""",
         {"x": _ones(4, 4), "z": _ones(4, 4)}, {"x": _ones(4, 5), "z": _ones(5, 5)}),
        ("g (float[1, 3, h, 2] x) => (float[a, b, c, d] y) { y = SpaceToDepth<blocksize = 2>(x) }",
         {"x": _ones(1, 3, 4, 2)}, {"x": _ones(1, 3, 5, 2)}),
        (_LSTM, {"x": _ones(4, 2, 3), "w": _ones(1, 8, 3), "r": _ones(1, 8, 2),
                 "l": np.array([0, 4], np.int32)},
         {"x": _ones(4, 2, 3), "w": _ones(1, 8, 3), "r": _ones(1, 8, 2),
          "l": np.array([1, 5], np.int32)}),
        (_LSTM, {"x": _ones(4, 2, 3), "w": _ones(1, 8, 3), "r": _ones(1, 8, 2),
                 "l": np.array([4, 1], np.int32)},
         {"x": _ones(4, 2, 3), "w": _ones(1, 8, 3), "r": _ones(1, 8, 2),
          "l": np.array([-1, 3], np.int32)}),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_end_a_run(
    text: str, fitting: Mapping[str, Array], unfit: Mapping[str, Array]
) -> None:
    """Code computes what fits, and by itself refuses what the numpy kernels refuse."""
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    with (
        _session(text, llvm_standby="0") as session,
        InferenceSession(model, providers=["cpu"]) as engine,
    ):
        pairs = zip(session.run(None, fitting), engine.run(None, fitting), strict=True)
        for made, wanted in pairs:
            np.testing.assert_allclose(made, wanted, rtol=1e-5)
        with pytest.raises(RunError):
            engine.run(None, unfit)
        with pytest.raises(RunError):
            session.run(None, unfit)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_tensors_take_computed_zeros_as_the_numpy_engine_does(shape: tuple[int, int]) -> None:
    """A computed 0 keeps a size of the input, which no formula of the output says."""
    text = """g (float[n, m] x) => (float[a, b] y) <int64[1] rest = {-1}>
        { s = Shape<start = 1, end = 2>(x) t = Concat<axis = 0>(s, rest) y = Reshape(x, t) }"""
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    feeds = {"x": _ones(*shape)}
    with _session(text) as session, InferenceSession(model, providers=["cpu"]) as engine:
        assert _outcome(session, feeds) == _outcome(engine, feeds)


def _outcome(session: InferenceSession, feeds: Mapping[str, Array]) -> object:
    """The shape of the first output, or the error's words."""
    try:
        return session.run(None, feeds)[0].shape
    except RunError as error:
        return str(error)


_ALIKE = """g (float[n, 3] x, float[n, 4] z) => (float[n, 3] y, float[n, 4] w)
    { y = Relu(x) w = Exp(z) }"""


def test_one_name_of_two_sizes_is_left_to_the_numpy_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A provider that nobody asked for costs no run (ADR 16)."""
    with _session(_ALIKE) as session, caplog.at_level(logging.WARNING):
        for rows in (2, 5, 6):
            y, w = session.run(None, {"x": _ones(2, 3), "z": _ones(rows, 4)})
            np.testing.assert_array_equal(y, _ones(2, 3))
            np.testing.assert_allclose(w, np.exp(_ones(rows, 4)), rtol=1e-6)
    (warning,) = caplog.messages
    assert "input 1 ('z') has the shape [5, 4]" in warning
    assert "[n, 4], where 'n' = 2" in warning


def test_without_the_cpu_provider_such_a_run_is_an_error() -> None:
    options = SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    model = onnx.parser.parse_model(_HEADER + _ALIKE).SerializeToString()
    with (
        InferenceSession(model, options, providers=["llvm"]) as session,
        pytest.raises(RunError, match=r"input 1 \('z'\) has the shape \[5, 4\]"),
    ):
        session.run(None, {"x": _ones(2, 3), "z": _ones(5, 4)})


@pytest.mark.parametrize("word", ["?", "-1", "unknown"])
def test_words_for_unknown_are_no_names(word: str, caplog: pytest.LogCaptureFixture) -> None:
    model = onnx.parser.parse_model(_HEADER + _ALIKE)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = word
    with (
        caplog.at_level(logging.WARNING),
        InferenceSession(model.SerializeToString(), providers=["llvm", "cpu"]) as session,
    ):
        made = session.run(None, {"x": _ones(2, 3), "z": _ones(5, 4)})
    assert [each.shape for each in made] == [(2, 3), (5, 4)]
    assert not caplog.messages


_PYRAMID = """g (float[1, 2, h, w] x) => (float[1, 2, k, l] y) <float[4] scales = {1, 1, 2, 2}> {
    p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x)
    q = Resize<mode = "nearest">(p, , scales)  y = Add(q, x) }"""


def test_a_map_of_one_row_is_repeated_by_numpy_where_its_double_is_added(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Code is compiled for a picture whose half, doubled, has its size; one row is added to two."""
    x = np.random.default_rng(0).standard_normal((1, 2, 1, 8)).astype(np.float32)
    with _session(_PYRAMID) as session, caplog.at_level(logging.WARNING):
        (result,) = session.run(None, {"x": x})
        assert "leaves such runs to the numpy engine" in caplog.text
        caplog.clear()
        session.run(None, {"x": np.ones((1, 2, 6, 8), np.float32)})
        assert not caplog.text
    model = onnx.parser.parse_model(_HEADER + _PYRAMID).SerializeToString()
    (wanted,) = InferenceSession(model, providers=["cpu"]).run(None, {"x": x})
    assert result.shape == (1, 2, 2, 8)
    np.testing.assert_array_equal(result, wanted)


#: For each operator: the model's inputs beside x, its declared output, its node, and what a run is
#: fed, first what the declared output says.
_FED: Mapping[str, tuple[str, str, str, Sequence[int], Sequence[Sequence[int]]]] = {
    "Expand": ("int64[2] t", "float[2,4]", "Expand(x, t)", (2, 4), [(2, 4), (3, 4), (2, 0)]),
    "Expand of a column": (
        "int64[2] t", "float[2,4]", "Expand(x, t)", (2, 1), [(2, 4), (1, 1), (2, 5)],
    ),
    "Reshape": ("int64[2] t", "float[2,4]", "Reshape(x, t)", (2, 4), [(2, 4), (4, 2), (3, 3)]),
    "Unsqueeze": ("int64[1] t", "float[1,2,4]", "Unsqueeze(x, t)", (2, 4), [(0,), (1,), (5,)]),
    "OneHot": (
        "int64[1] t", "float[2,4,4]", "OneHot(x, t, v)", (2, 4), [(4,), (3,), (0,)],
    ),
    "Split": ("int64[2] t", "float[2,2]", "Split<axis = 1>(x, t)", (2, 4), [(2, 2), (1, 3), (9, 9)]),
}  # fmt: skip


def _result_of(
    model: bytes, providers: list[str], feeds: Mapping[str, Array]
) -> list[Array] | None:
    """Return the outputs of a run; None where it ends with an error."""
    with InferenceSession(model, providers=providers) as session:
        try:
            return session.run(None, feeds)
        except RunError:
            return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", _FED)
def test_what_a_run_asks_for_goes_before_what_the_model_declares(operator: str) -> None:
    feeds_of_case, declared, node, shape, targets = _FED[operator]
    second = f", {declared} z" if "Split" in node else ""
    outputs = "y, z" if second else "y"
    kind = "int64" if "OneHot" in node else "float32"
    text = f"""g ({kind.removesuffix("32")}[{",".join(map(str, shape))}] x, {feeds_of_case})
        => ({declared} y{second}) <float[2] v = {{0, 1}}> {{ {outputs} = {node} }}"""
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    x = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    for target in targets:
        feeds = {"x": x, "t": np.array(target, np.int64)}
        compiled, engine = (
            _result_of(model, providers, feeds) for providers in (["llvm", "cpu"], ["cpu"])
        )
        assert (compiled is None) is (engine is None), target
        for one, other in zip(compiled or [], engine or [], strict=True):
            np.testing.assert_array_equal(one, other)
