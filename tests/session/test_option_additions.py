"""What is added to session options, in ortpkg and in onnxruntime alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    LoadCancelledError,
    ModelError,
    ModelFileError,
    SessionError,
    UnknownExecutionProviderError,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions
from ortpkg.runtime.session.values.ort_value import OrtValue
from tests.session.conftest import model_of

LIBRARIES = [pytest.param(ortpkg, id="ortpkg"), pytest.param(onnxruntime, id="onnxruntime")]
RELU = "g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }"
ADD = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
GIVEN = np.array([10, 20], np.float32)
ZEROS = np.zeros(2, np.float32)


def bytes_of(text: str) -> bytes:
    return bytes(model_of(text, opset=17).SerializeToString())


def with_external_weights() -> bytes:
    """ADD, with its weights in a file that does not exist."""
    model = model_of(ADD, opset=17)
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "8"}.items():
        tensor.external_data.add(key=key, value=value)
    return bytes(model.SerializeToString())


# --- attributes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_an_unknown_attribute_cannot_be_set(ort: Any, kind: str) -> None:
    with pytest.raises(AttributeError, match="intra_op_num_thread"):
        getattr(ort, kind)().intra_op_num_thread = 4


def test_a_mistyped_option_is_told_what_was_meant() -> None:
    with pytest.raises(AttributeError, match=r"did you mean 'intra_op_num_threads'\?"):
        SessionOptions().intra_op_num_thread = 4  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no setter"):
        SessionOptions().config_entries = {}  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_every_attribute_of_onnxruntime_is_here(kind: str) -> None:
    theirs = {name for name in dir(getattr(onnxruntime, kind)) if not name.startswith("_")}
    absent = {"set_ep_context_data_read_func", "clear_ep_context_data_read_func"}  # docs/interop.md
    absent |= {"set_provider_selection_policy", "set_provider_selection_policy_delegate"}
    assert theirs - absent <= set(dir(getattr(ortpkg, kind)()))


def test_options_are_copied_without_what_is_given_in_them() -> None:
    options, value = SessionOptions(), OrtValue.ortvalue_from_numpy(GIVEN)
    options.add_initializer("w", value)
    made = copy.deepcopy(options)
    made.add_session_config_entry("key", "1")
    made.add_free_dimension_override_by_name("N", 1)
    assert not options.config_entries
    assert not options.free_dimension_overrides
    assert made.shared_initializers["w"] is value


@pytest.mark.parametrize("ort", LIBRARIES)
def test_run_entries_have_the_limits_of_session_entries(ort: Any) -> None:
    options = ort.RunOptions()
    options.add_run_config_entry("key", "1")
    assert options.get_run_config_entry("key") == "1"
    with pytest.raises(RuntimeError):
        options.add_run_config_entry("", "1")
    with pytest.raises(TypeError):
        options.add_run_config_entry("key", 1)


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_shared_initializer_takes_the_place_of_the_models(ort: Any) -> None:
    options, value = ort.SessionOptions(), ort.OrtValue.ortvalue_from_numpy(GIVEN)
    options.add_initializer("w", value)
    options.add_initializer("not in the model", value)
    found = ort.InferenceSession(bytes_of(ADD), options).run(None, {"x": ZEROS})
    np.testing.assert_array_equal(found[0], GIVEN)
    with pytest.raises(RuntimeError):
        options.add_initializer("w", value)


def test_two_sessions_share_one_tensor() -> None:
    options, weights = SessionOptions(), GIVEN.copy()
    options.add_initializer("w", OrtValue.ortvalue_from_numpy(weights))
    one, two = (InferenceSession(bytes_of(ADD), options) for _ in range(2))
    weights[:] = 7
    assert [each.run(None, {"x": ZEROS})[0].tolist() for each in (one, two)] == [[7, 7], [7, 7]]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_an_external_initializer_needs_no_file(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(GIVEN)])
    found = ort.InferenceSession(with_external_weights(), options).run(None, {"x": ZEROS})
    np.testing.assert_array_equal(found[0], GIVEN)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_library_that_runs_the_model_gets_the_given_tensors_too(backend: str) -> None:
    options = SessionOptions()
    options.add_external_initializers(["w"], [OrtValue.ortvalue_from_numpy(GIVEN)])
    with InferenceSession(with_external_weights(), options, backend=backend) as session:
        np.testing.assert_array_equal(session.run(None, {"x": ZEROS})[0], GIVEN)


@pytest.mark.parametrize("name", ["w.bin", "./w.bin"])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_external_data_is_read_from_memory(ort: Any, name: str) -> None:
    options = ort.SessionOptions()
    content = GIVEN.tobytes() + b"more"
    options.add_external_initializers_from_files_in_memory([name], [content], [len(content)])
    found = ort.InferenceSession(with_external_weights(), options).run(None, {"x": ZEROS})
    np.testing.assert_array_equal(found[0], GIVEN)


def _external(
    name: str, array: Any, model: Callable[[], bytes] = with_external_weights
) -> Callable[[Any], Any]:
    def attempt(ort: Any) -> None:
        options = ort.SessionOptions()
        options.add_external_initializers([name], [ort.OrtValue.ortvalue_from_numpy(array)])
        ort.InferenceSession(model(), options)

    return attempt


def _in_memory(name: str, content: bytes) -> Callable[[Any], Any]:
    def attempt(ort: Any) -> None:
        options = ort.SessionOptions()
        options.add_external_initializers_from_files_in_memory([name], [content], [len(content)])
        ort.InferenceSession(with_external_weights(), options)

    return attempt


@pytest.mark.parametrize(
    ("attempt", "kind", "message"),
    [
        (
            _external("q", GIVEN, lambda: bytes_of(ADD)),
            ModelError,
            "given for 'q', but the model has no initializer",
        ),
        (_external("w", GIVEN, lambda: bytes_of(ADD)), ModelError, "'w' has no external data"),
        (
            _external("w", GIVEN.astype(np.float64)),
            ModelError,
            r"'w' is float\[2\], but double\[2\] was given",
        ),
        (
            _external("w", np.ones(3, np.float32)),
            ModelError,
            r"'w' is float\[2\], but float\[3\] was given",
        ),
        (
            _in_memory("q.bin", GIVEN.tobytes()),
            ModelFileError,
            "'w.bin', which is not among the given files",
        ),
        (
            _in_memory("w.bin", GIVEN.tobytes()[:4]),
            ModelFileError,
            "needs bytes 0 to 8 of 'w.bin', which has only 4",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_the_model_is_refused(
    attempt: Callable[[Any], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(Exception, match=r"\[ONNXRuntimeError\] : 1 : FAIL"):
        attempt(onnxruntime)
    with pytest.raises(kind, match=message):
        attempt(ortpkg)


@pytest.mark.parametrize("ort", LIBRARIES)
def test_lists_of_different_lengths_and_doubled_names_are_refused(ort: Any) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(GIVEN)
    for names, values in ((["w"], []), (["w", "w"], [value, value])):
        with pytest.raises(RuntimeError):
            ort.SessionOptions().add_external_initializers(names, values)
    for files, contents, lengths in ((["w"], [b"1"], []), (["w", "w"], [b"1", b"2"], [1, 1])):
        with pytest.raises(RuntimeError):
            ort.SessionOptions().add_external_initializers_from_files_in_memory(
                files, contents, lengths
            )
    with pytest.raises(RuntimeError):
        ort.SessionOptions().add_initializer("w", GIVEN)


# --- dimensions -----------------------------------------------------------------------------------


def denoted(denotation: str) -> bytes:
    model = model_of(RELU, opset=17)
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = denotation
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(("denotation", "expected"), [("DATA_BATCH", [4, 2]), ("OTHER", ["N", 2])])
@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_dimension_is_fixed_by_its_denotation(
    ort: Any, denotation: str, expected: list[int | str]
) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = ort.InferenceSession(denoted(denotation), options)
    assert [session.get_inputs()[0].shape, session.get_outputs()[0].shape] == [expected, expected]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_only_the_input_that_has_the_denotation_is_fixed(ort: Any) -> None:
    model = model_of(
        "g (float[M] a, float[N,2] x) => (float[M] b, float[N,2] y) { b = Neg(a) y = Relu(x) }",
        opset=17,
    )
    model.graph.input[1].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = ort.InferenceSession(model.SerializeToString(), options)
    assert [each.shape for each in session.get_inputs()] == [["M"], [4, 2]]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_dimension_without_a_name_is_fixed_by_its_denotation(ort: Any) -> None:
    model = model_of(RELU, opset=17)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    assert ort.InferenceSession(model.SerializeToString(), options).get_inputs()[0].shape == [4, 2]


@pytest.mark.parametrize("ort", LIBRARIES)
def test_two_sizes_for_one_dimension_are_refused(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    options.add_free_dimension_override_by_name("N", 5)
    with pytest.raises(Exception, match="free dimension"):
        ort.InferenceSession(denoted("DATA_BATCH"), options)


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(TypeError, match="dimension 'N' has a whole number, not str"):
        SessionOptions().add_free_dimension_override_by_name("N", "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidSessionOptionError, match="'BATCH' cannot be '-1'"):
        SessionOptions().add_free_dimension_override_by_denotation("BATCH", -1)


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_size_has_63_bits(ort: Any) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", (1 << 63) - 1)
    with pytest.raises((TypeError, InvalidSessionOptionError)):
        options.add_free_dimension_override_by_name("N", 1 << 63)


# --- the rest -------------------------------------------------------------------------------------


def test_providers_are_added_if_they_are_here() -> None:
    options = SessionOptions()
    assert not options.has_providers()
    with pytest.raises(UnknownExecutionProviderError, match="Foo"):
        options.add_provider("Foo", {})
    with pytest.raises(UnknownExecutionProviderError, match="CUDAExecutionProvider"):
        options.add_provider("CUDAExecutionProvider", {})
    with pytest.raises(
        InvalidSessionOptionError, match="devices of one execution provider, not of 0"
    ):
        options.add_provider_for_devices([], {})
    options.add_provider("CPUExecutionProvider", {"arena_extend_strategy": 1})  # type: ignore[dict-item]
    assert options.has_providers()
    assert options.requested_providers == (
        ("CPUExecutionProvider", (), {"arena_extend_strategy": "1"}),
    )
    with pytest.raises(InvalidSessionOptionError, match="CPUExecutionProvider was added before"):
        options.add_provider("cpu")


@pytest.mark.parametrize("ort", LIBRARIES)
def test_the_making_of_a_session_is_cancelled(ort: Any) -> None:
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(Exception, match="cancel") as caught:
        ort.InferenceSession(bytes_of(RELU), options)
    assert "ModelLoadCanceled" in {base.__name__ for base in caught.type.__mro__}
    assert ort is onnxruntime or caught.errisinstance(LoadCancelledError)
    options.set_load_cancellation_flag(False)
    ort.InferenceSession(bytes_of(RELU), options)


@pytest.mark.parametrize("ort", LIBRARIES)
def test_a_native_library_of_operators_is_refused(ort: Any) -> None:
    with pytest.raises(Exception, match="libmine") as caught:
        ort.SessionOptions().register_custom_ops_library("libmine.so")
    assert "Fail" in {base.__name__ for base in caught.type.__mro__}
    assert ort is onnxruntime or caught.errisinstance(SessionError)


def test_run_options_have_what_programs_set() -> None:
    options = RunOptions()
    options.only_execute_path_to_fetches = True
    assert options.only_execute_path_to_fetches
