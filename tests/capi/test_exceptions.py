"""What programs written for onnxruntime catch: the same under the same names, in both libraries."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

import ortpkg
from ortpkg.capi import _pybind_state, onnxruntime_inference_collection
from ortpkg.capi import onnxruntime_pybind11_state as ours
from ortpkg.foundations import errors
from ortpkg.foundations.errors import onnxruntime_exceptions
from tests.session.conftest import model_of

RELU = model_of("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", opset=17).SerializeToString()
RESHAPE = model_of(
    "g (float[N,2] x, int64[K] s) => (float[] y) { y = Reshape(x, s) }", opset=17
).SerializeToString()
X = np.ones((1, 2), np.float32)

EXCEPTIONS = [
    name
    for name in dir(theirs)
    if isinstance(getattr(theirs, name), type(Exception)) and name[0].isupper()
]
EXCEPTIONS = [name for name in EXCEPTIONS if issubclass(getattr(theirs, name), BaseException)]


def _terminated(ort: Any) -> None:
    options = ort.RunOptions()
    options.terminate = True
    ort.InferenceSession(RELU).run(None, {"x": X}, options)


def _graph(text: str) -> Callable[[Any], Any]:
    return lambda ort: ort.InferenceSession(model_of(text, opset=17).SerializeToString())


def _run(feeds: Any, names: list[str] | None = None, model: bytes = RELU) -> Callable[[Any], Any]:
    return lambda ort: ort.InferenceSession(model).run(names, feeds)


def _config(key: str, value: str) -> Callable[[Any], Any]:
    return lambda ort: ort.SessionOptions().add_session_config_entry(key, value)


#: What a program does wrong, in either library.
MISTAKES: dict[str, Callable[[Any], Any]] = {
    "no such file": lambda ort: ort.InferenceSession("/nonexistent/x.onnx"),
    "no model": lambda ort: ort.InferenceSession(b"abcdefgh"),
    "a node's input that nothing makes": _graph("g (float[2] x) => (float[2] y) { y = Relu(z) }"),
    "an output that nothing makes": _graph("g (float[2] x) => (float[2] y) { z = Relu(x) }"),
    "two types for one": _graph("g (float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }"),
    "an unknown operator": _graph("g (float[2] x) => (float[2] y) { y = Foo(x) }"),
    "a feed that is missing": _run({}),
    "a feed too many": _run({"x": X, "z": X}),
    "a feed of another type": _run({"x": X.astype(np.float64)}),
    "a feed of another rank": _run({"x": X[0]}),
    "a feed of another size": _run({"x": np.ones((1, 3), np.float32)}),
    "a feed that is a tuple": _run({"x": ((1.0, 2.0),)}),
    "a feed that is a text": _run({"x": "a"}),
    "a feed that is a number": _run({"x": 1.0}),
    "an unknown output": _run({"x": X}, ["q"]),
    "a kernel that fails": _run({"x": X, "s": np.array([3])}, None, RESHAPE),
    "a run that was ended": _terminated,
    "a config entry that was never set": lambda ort: ort.SessionOptions().get_session_config_entry(
        "foo"
    ),
    "an empty config key": _config("", "1"),
    "a config value that is too long": _config("a", "1" * 8193),
    "a run's config entry that was never set": lambda ort: ort.RunOptions().get_run_config_entry(
        "foo"
    ),
}


def _bases(kind: type[BaseException]) -> set[str]:
    """The names under which a program may catch it, the exceptions of both libraries being one."""
    return {base.__name__ for base in kind.__mro__} - {"object", "BaseException", "Exception"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_caught_under_onnxruntimes_name(mistake: str) -> None:
    with pytest.raises(Exception) as expected:
        MISTAKES[mistake](onnxruntime)
    with pytest.raises(errors.OrtpkgError) as caught:
        MISTAKES[mistake](ortpkg)
    missing = _bases(expected.type) - _bases(caught.type)
    if (
        mistake == "a node's input that nothing makes"
    ):  # INVALID_ARGUMENT there since 1.31, INVALID_GRAPH before
        missing -= {"InvalidArgument"}
    assert not missing


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_of_onnxruntime_is_here(name: str) -> None:
    assert _bases(getattr(ours, name)) == _bases(getattr(theirs, name))
    assert getattr(_pybind_state, name) is getattr(ours, name)


def test_an_error_is_of_its_own_status_only() -> None:
    """Our classes' relatives are none there: a missing file is not a damaged one."""
    missing = errors.ModelNotFoundError("gone")
    assert isinstance(missing, ours.NoSuchFile)
    assert isinstance(missing, errors.ModelFileError)
    assert not isinstance(missing, ours.InvalidProtobuf | ours.Fail)


def test_every_status_has_its_exception() -> None:
    assert set(onnxruntime_exceptions.EXCEPTION_OF_STATUS) == set(errors.StatusCode)


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_copy_and_a_pickle(again: Callable[[Any], Any]) -> None:
    error = errors.InvalidFeedError("wrong", name="x", expected="a", actual="b")
    found = again(error)
    assert type(found) is type(error)
    assert (str(found), found.name, found.expected, found.actual) == ("wrong", "x", "a", "b")


def test_an_error_shows_as_the_class_that_was_raised() -> None:
    assert repr(errors.ModelNotFoundError("gone")) == "ModelNotFoundError('gone')"
    assert type(errors.ModelNotFoundError("gone")).__module__ == "ortpkg.foundations.errors"


def test_native_modules_lead_to_the_public_names() -> None:
    assert ours.SessionOptions is ortpkg.SessionOptions
    assert onnxruntime_inference_collection.OrtValue is ortpkg.OrtValue
    assert onnxruntime_inference_collection.Session is ortpkg.InferenceSession
    assert onnxruntime_inference_collection.C.SessionIOBinding is ortpkg.IOBinding
    assert ours.get_default_session_options() == ortpkg.SessionOptions()
    with pytest.raises(AttributeError, match="Nothing"):
        _ = ours.Nothing


@pytest.mark.parametrize("name", ["cpu", "cuda", "dml", "webgpu", "gpu", "cann", "npu"])
def test_names_of_devices_mean_the_same_numbers(name: str) -> None:
    numbers = onnxruntime.capi.onnxruntime_inference_collection.get_ort_device_type
    assert onnxruntime_inference_collection.get_ort_device_type(name) == numbers(name)
